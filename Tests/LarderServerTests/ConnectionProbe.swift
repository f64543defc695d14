import NIOCore

@testable import LarderServer

/// A connection as the tests see it: the only place of the fixtures that reads its parts. Used on its event loop.
struct ConnectionProbe {
    let connection: Connection

    /// Takes a socket and begins to serve it.
    /// - Parameter limit: the maximum number of connections of the registry.
    static func start(
        _ socket: CInt, on loop: LoopContext, peer: PeerCredentials = .own, limits: LimitSettings = LimitSettings(),
        limit: Int = 1
    ) -> ConnectionProbe {
        let probe = ConnectionProbe(
            connection: Connection(
                id: loop.registry.admit(limit: limit) ?? 0, loop: loop, socket: socket, peer: peer, limits: limits,
                usage: loop.registry.join(peer, limits) ?? UserUsage(of: peer)))
        probe.connection.start()
        return probe
    }

    /// The resources in use by the connection's user.
    var usage: UserUsage { connection.usage }
    /// How many lines were served.
    var requests: Int { connection.requests }
    var isClosed: Bool { connection.isClosed }
    var isOutputPending: Bool { connection.isOutputPending }
    /// Whether the rest of the input waits until other connections were served.
    var isResumeScheduled: Bool { connection.willGoOn }

    /// Reports events of the socket, as the event loop does.
    func ready(_ events: EpollEvents) { connection.ready(events) }

    func close() { connection.close() }
}
