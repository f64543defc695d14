package import LarderEventLoop
import LarderJSON
import LarderProtocol
import Logging
import NIOCore

/// The agent's server: accepts connections on one socket and serves each on one of a few event loops.
package final class AgentServer: Sendable {
    private let context: ServerContext
    private let socket: ListeningSocket
    private let registry = ConnectionRegistry()
    private let loops: [EpollLoop]
    private let acceptor: Acceptor

    /// How long connections may take to drain at the end.
    private static let finishTime = Duration.seconds(3)

    /// Makes a server; nothing is accepted yet.
    /// - Parameter loops: the loops that serve the connections.
    package init(context: ServerContext, socket: ListeningSocket, loops: [EpollLoop]) {
        self.context = context
        self.socket = socket
        self.loops = loops
        acceptor = Acceptor(loops)
    }

    /// The number of connected clients.
    package var connections: Int { registry.connections }

    /// How long no client has been connected; nil while one is.
    package var idleTime: Duration? { registry.idleTime }

    /// Accepts no more connections, unless a client is connected. Later clients wait in the kernel's queue, and the next agent
    /// serves them if systemd passed the socket.
    /// - Returns: whether no client is connected.
    package func stopAcceptingIfIdle() async -> Bool {
        await acceptor.pause()
        if registry.connections == 0 { return true }
        await acceptor.resume()
        return false
    }

    /// Serves until the task is cancelled; then accepts nothing more, lets every connection finish, and returns.
    /// - Parameter onReady: called once connections are accepted.
    package func run(onReady: @Sendable () async -> Void) async throws {
        let contexts = try await makeContexts()
        let (context, registry) = (context, registry)
        try await acceptor.start(
            socket,
            Acceptor.Handler(
                connected: { socket, loop in
                    guard let own = contexts[ObjectIdentifier(loop)]?.value else { return }
                    Self.accept(socket, on: own, context, registry)
                },
                exhausted: { socket, loop in
                    var limits = context.limits
                    (limits.connections, limits.isBoundByDescriptors) = (registry.connections, true)
                    registry.countRefusal()
                    registry.refuse(socket, limits, context.refusals)
                }))
        context.logger.info(
            "ready",
            metadata: [
                "socket": "\(socket.path)", "activated": "\(socket.isActivated)",
                "permissions": "\(socket.permissions)",
            ])
        await onReady()
        // Ends only by cancellation.
        try? await Task.sleep(for: .seconds(Int64.max / 2))
        await stop()
    }

    /// Applies other rules of access. Returns after no client is served by the previous ones: subscriptions and requests that
    /// only those admitted have ended.
    package func use(_ rules: AccessRules) async {
        guard context.use(rules) else { return }
        await registry.reviewAll()
    }

    private func stop() async {
        // A cancelled task cannot wait, so a new one does the rest.
        await Task {
            await acceptor.close()
            socket.remove()
            await registry.finishAll()
            let patience = Task {
                try await Task.sleep(for: Self.finishTime)
                await registry.closeAll()
            }
            await registry.waitUntilEmpty()
            patience.cancel()
            context.refusals.flush()
        }.value
    }

    // MARK: Event loops

    private func makeContexts() async throws -> [ObjectIdentifier: NIOLoopBound<LoopContext>] {
        var contexts: [ObjectIdentifier: NIOLoopBound<LoopContext>] = [:]
        for (loop, load) in zip(loops, acceptor.loads) {
            let (context, registry) = (context, registry)
            let own = try await loop.submit {
                NIOLoopBound(
                    LoopContext(load, loop.epoll, server: context, methods: MethodRegistry.agent, registry: registry),
                    eventLoop: loop)
            }.get()
            registry.add(own)
            contexts[ObjectIdentifier(loop)] = own
        }
        return contexts
    }

    private static func accept(
        _ socket: CInt, on loop: LoopContext, _ context: ServerContext, _ registry: ConnectionRegistry
    ) {
        let limits = context.limits
        let peer = PeerCredentials(descriptor: socket)
        guard let usage = registry.join(peer, limits) else {
            return registry.refuse(socket, of: peer, limits, context.refusals)
        }
        guard let id = registry.admit(limit: limits.connections) else {
            registry.users.leave(usage)
            return registry.refuse(socket, limits, context.refusals)
        }
        Connection(id: id, loop: loop, socket: socket, peer: peer, limits: limits, user: usage).start()
    }
}
