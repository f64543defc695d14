import LarderEventLoop

@testable import LarderServer

/// Gives tests access to the internal state of a connection. Other fixtures access that state only through this type.
/// Used only on the event loop.
struct ConnectionProbe {
    private let reader: SocketReader

    /// Starts a connection on a socket.
    /// - Parameter limit: the maximum number of connections in the registry of the loop.
    static func start(
        _ socket: CInt, on server: LoopServer, peer: PeerCredentials = .own,
        limits: ConnectionLimits = ConnectionLimits(), limit: Int = 1
    ) -> ConnectionProbe {
        let registry = server.loop.registry
        let reader = SocketReader(
            id: registry.admit(limit: limit) ?? 0, server: server, socket: socket, peer: peer, limits: limits,
            user: registry.join(peer, limits) ?? UserUsage(of: peer))
        reader.start()
        return ConnectionProbe(reader: reader)
    }

    var connection: Connection { reader.connection }
    /// The resources in use by the connection's user.
    var usage: UserUsage { connection.usage.user }
    /// The number of served lines.
    var requests: Int { reader.received.lines }
    /// Whether the client has only monitored the agent.
    var isMonitoring: Bool { connection.isMonitoring(lines: requests) }
    var isClosed: Bool { connection.phase == .closed }
    var isOutputPending: Bool { connection.output.isPending }
    /// Whether the rest of the input is deferred until other connections have been served.
    var isResumeScheduled: Bool { reader.isResumeScheduled }

    /// Reports events of the socket to the connection, as the event loop does.
    func ready(_ events: EpollEvents) { reader.ready(events) }

    func close() { connection.close() }
}
