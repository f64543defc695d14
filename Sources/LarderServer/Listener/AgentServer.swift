package import LarderEventLoop
import Logging
import NIOCore

/// The server of the agent: accepts connections on one socket and serves each on one of several event loops.
package final class AgentServer: Sendable {
    private let context: ServerContext
    private let socket: ListeningSocket
    private let registry = ConnectionRegistry()
    private let loops: [EpollLoop]
    private let acceptor: Acceptor

    /// How long connections may take to drain when the server stops. Those that take longer are closed.
    private static let drainTimeout = Duration.seconds(3)

    /// Creates a server. It does not accept connections before ``run(onReady:)``.
    /// - Parameter loops: the loops that serve the connections
    package init(context: ServerContext, socket: ListeningSocket, loops: [EpollLoop]) {
        self.context = context
        self.socket = socket
        self.loops = loops
        acceptor = Acceptor(loops)
    }

    /// The snapshots that the connected clients have acknowledged.
    var acknowledgements: AcknowledgementRegistry { registry.acknowledgements }

    /// The number of connected clients.
    package var connections: Int { registry.connections }

    /// How long no client has been connected; nil while a client is connected. A client that has only called `agent.ping`
    /// and `agent.metrics` does not count.
    package func idleTime() async -> Duration? { await registry.idleTime() }

    /// Stops accepting connections if no client is connected that counts (``idleTime()``). Later clients wait in the
    /// kernel's queue. If systemd passed the socket, the next agent serves them.
    /// - Returns: whether no such client is connected
    package func stopAcceptingIfIdle() async -> Bool {
        await acceptor.pause()
        if await registry.idleTime() != nil { return true }
        await acceptor.resume()
        return false
    }

    /// Serves until the task is cancelled. Then it stops accepting, drains all connections and returns.
    /// - Parameter onReady: called once connections are accepted
    package func run(onReady: @Sendable () async -> Void) async throws {
        let servers = try await makeServers()
        let (context, registry) = (context, registry)
        try await acceptor.start(
            socket,
            Acceptor.Handler(
                connected: { socket, loop in
                    servers[ObjectIdentifier(loop)]?.value.accept(socket)
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
        // The sleep ends only when the task is cancelled.
        try? await Task.sleep(for: .seconds(Int64.max / 2))
        await stop()
    }

    /// Applies new access rules. Returns once all subscriptions and requests that the new rules do not permit have
    /// ended.
    package func use(_ rules: AccessRules) async {
        guard context.use(rules) else { return }
        await registry.reviewAll()
    }

    private func stop() async {
        // A cancelled task cannot sleep, so a new task drains the connections.
        await Task {
            await acceptor.close()
            socket.remove()
            await registry.finishAll()
            let timeout = Task {
                try await Task.sleep(for: Self.drainTimeout)
                await registry.closeAll()
            }
            await registry.waitUntilEmpty()
            timeout.cancel()
            context.refusals.flush()
        }.value
    }

    // MARK: Event loops

    private func makeServers() async throws -> [ObjectIdentifier: NIOLoopBound<LoopServer>] {
        var servers: [ObjectIdentifier: NIOLoopBound<LoopServer>] = [:]
        for (loop, load) in zip(loops, acceptor.loads) {
            let (context, registry) = (context, registry)
            servers[ObjectIdentifier(loop)] = try await loop.submit {
                let server = LoopServer(load, loop.epoll, server: context, methods: .agent, registry: registry)
                registry.add(NIOLoopBound(server, eventLoop: loop))
                return NIOLoopBound(server, eventLoop: loop)
            }.get()
        }
        return servers
    }
}

/// A server without a listening socket, for an agent inside a test. It serves the connected sockets that its owner
/// passes, on one event loop.
package final class EmbeddedServer: Sendable {
    private let context: ServerContext
    private let registry = ConnectionRegistry()
    private let loop: any ServerEventLoop
    private let own: NIOLoopBound<LoopServer>

    /// - Parameters:
    ///   - loop: serves the connections. It runs on the thread of `epollLoop`
    ///   - epollLoop: watches the sockets
    package init(context: ServerContext, loop: any ServerEventLoop, epollLoop: EpollLoop) async throws {
        self.context = context
        self.loop = loop
        let registry = registry
        own = try await epollLoop.submit {
            let server = LoopServer(
                LoopLoad(eventLoop: loop), epollLoop.epoll, server: context, methods: .agent, registry: registry)
            registry.add(NIOLoopBound(server, eventLoop: loop))
            return NIOLoopBound(server, eventLoop: loop)
        }.get()
    }

    /// Serves a connected socket, and takes ownership of it.
    package func serve(_ socket: CInt) {
        let own = own
        loop.execute { own.value.accept(socket) }
    }

    /// Applies new access rules to all later requests. Subscriptions and pending requests that the new rules do not
    /// permit end soon afterwards.
    package func use(_ rules: AccessRules) {
        guard context.use(rules) else { return }
        let own = own
        loop.execute { own.value.reviewAll() }
    }

    /// Closes all connections.
    package func disconnectAll() async { await registry.closeAll() }

    /// Closes all connections. ``serve(_:)`` must not be called after this.
    package func stop() async {
        await registry.closeAll()
        registry.removeLoops()
    }
}
