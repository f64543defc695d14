import JSON
import LarderConfig
import LarderWire
import Logging
public import NIOCore
import NIOPosix

/// The agent's server: accepts connections on one socket and serves each on one of a few event loops.
public final class AgentServer: Sendable {
    private let context: ServerContext
    private let socket: ListeningSocket
    private let group: any EventLoopGroup
    private let registry = ConnectionRegistry()
    private let acceptor: Acceptor

    /// How long connections may take to finish at the end.
    private static let finishTime = Duration.seconds(3)

    /// Makes a server; nothing is accepted yet.
    public init(context: ServerContext, socket: ListeningSocket, group: any EventLoopGroup) {
        self.context = context
        self.socket = socket
        self.group = group
        acceptor = Acceptor(group.makeIterator().map(LoopLoad.init))
    }

    /// How many clients are connected.
    public var connections: Int { registry.connections }

    /// How long nobody has been connected; nil while somebody is.
    public var idleTime: Duration? { registry.idleTime }

    /// Accepts no more connections, unless somebody is connected. Those who connect from then on wait in the kernel's queue,
    /// and are served by the next agent where the socket was handed over.
    /// - Returns: whether nobody is connected.
    public func stopAcceptingIfIdle() async -> Bool {
        await acceptor.pause()
        if registry.connections == 0 { return true }
        await acceptor.resume()
        return false
    }

    /// Serves until the task is cancelled; then accepts nothing more, lets every connection finish, and returns.
    /// - Parameter onReady: called once connections are accepted.
    public func run(onReady: @Sendable () async -> Void) async throws {
        let loops = try await makeLoops(acceptor.loads)
        let (context, registry) = (context, registry)
        try await acceptor.start(socket) { (channel, eventLoop) in
            guard let loop = loops[ObjectIdentifier(eventLoop)]?.value else { return }
            try Self.accept(channel, on: loop, context, registry)
        }
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

    /// Takes other rules of access; returns once nobody is served by the former ones: subscriptions and waits that they let
    /// in and these do not have ended.
    public func use(_ rules: AccessRules) async {
        guard context.use(rules) else { return }
        await registry.reviewAll()
    }

    private func stop() async {
        // A task that is cancelled cannot wait for anything; what is left to do is done in one that is not.
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
            registry.denials.flush(context.logger)
        }.value
    }

    // MARK: Event loops

    private func makeLoops(_ loads: [LoopLoad]) async throws -> [ObjectIdentifier: NIOLoopBound<LoopContext>] {
        var loops: [ObjectIdentifier: NIOLoopBound<LoopContext>] = [:]
        for load in loads {
            let (context, registry) = (context, registry)
            let loop = try await load.eventLoop.submit {
                NIOLoopBound(
                    LoopContext(load, server: context, methods: MethodTable.agent, registry: registry),
                    eventLoop: load.eventLoop)
            }.get()
            registry.add(loop)
            loops[ObjectIdentifier(load.eventLoop)] = loop
        }
        return loops
    }

    private static func accept(
        _ channel: any Channel, on loop: LoopContext, _ context: ServerContext, _ registry: ConnectionRegistry
    ) throws {
        let limits = context.limits
        let peer =
            try channel.pipeline.syncOperations.withUnsafeTransportIfAvailable(of: NIOBSDSocket.Handle.self) {
                PeerCredentials(descriptor: $0)
            } ?? PeerCredentials(descriptor: -1)
        guard let usage = registry.join(peer, limits) else {
            let error = UserUsageTable.refusal(of: peer, limits)
            registry.usageLog.add(error, "connectionsPerUser", of: peer, on: loop.eventLoop, context.logger)
            return try channel.pipeline.syncOperations.addHandler(RefusalHandler(error))
        }
        guard let id = registry.admit(limit: limits.connections) else {
            registry.users.leave(usage)
            registry.refusals.add(limits, on: loop.eventLoop, context.logger)
            return try channel.pipeline.syncOperations.addHandler(RefusalHandler(limits.refusal))
        }
        do {
            try channel.pipeline.syncOperations.addHandler(
                SessionHandler(id: id, loop: loop, peer: peer, limits: limits, usage: usage))
        } catch {
            // Nobody else gives the place back: there is no session that could end.
            registry.users.leave(usage)
            registry.sessionEnded()
            throw error
        }
    }
}

extension MethodTable {
    /// Every method of the agent.
    static var agent: MethodTable {
        var table = MethodTable()
        table.addAgentMethods()
        table.addConfigMethods()
        table.addHistoryMethods()
        table.addExplainMethod()
        table.addImageMethods()
        return table
    }
}
