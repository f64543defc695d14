import LarderEventLoop

@testable import LarderServer

/// Gives tests access to the internal state of a connection. Other fixtures access that state only through this type.
/// Used only on the event loop.
struct ConnectionProbe {
    let connection: Connection

    /// Starts a connection on a socket.
    /// - Parameter limit: the maximum number of connections in the registry of the loop.
    static func start(
        _ socket: CInt, on loop: LoopContext, peer: PeerCredentials = .own,
        limits: ConnectionLimits = ConnectionLimits(), limit: Int = 1
    ) -> ConnectionProbe {
        let probe = ConnectionProbe(
            connection: Connection(
                id: loop.registry.admit(limit: limit) ?? 0, loop: loop, socket: socket, peer: peer, limits: limits,
                user: loop.registry.join(peer, limits) ?? UserUsage(of: peer)))
        probe.connection.start()
        return probe
    }

    /// The resources in use by the connection's user.
    var usage: UserUsage { connection.usage.user }
    /// The number of served lines.
    var requests: Int { connection.inputState.lines }
    var isClosed: Bool { connection.phase == .closed }
    var isOutputPending: Bool { connection.output.isPending }
    /// Whether the rest of the input is deferred until other connections have been served.
    var isResumeScheduled: Bool { connection.input.isResumeScheduled }

    /// Reports events of the socket to the connection, as the event loop does.
    func ready(_ events: EpollEvents) { connection.ready(events) }

    func close() { connection.close() }
}
