import LarderEventLoop
import LarderProtocol
import NIOCore

/// Serves the connections of one event loop. Used on that loop only.
final class LoopServer: RegisteredLoop {
    let loop: LoopContext
    let methods: MethodRegistry
    let hub: SubscriptionHub
    let stalls = StallMonitor()
    private let load: LoopLoad
    /// The connections, by id.
    private var connections: [Int: Connection] = [:]

    init(
        _ load: LoopLoad, _ epoll: Epoll, server: ServerContext, methods: MethodRegistry, registry: ConnectionRegistry
    ) {
        self.load = load
        self.methods = methods
        loop = LoopContext(on: load.eventLoop, epoll, server: server, registry: registry)
        hub = SubscriptionHub(eventLoop: load.eventLoop)
        loop.leaseTimer.sweep = { [weak self] now, end in
            guard let self else { return end(.distantFuture) }
            endLeases(expiredAt: now, andThen: end)
        }
    }

    /// Serves a connected socket, or refuses it if a limit is reached. Takes ownership of the socket.
    func accept(_ socket: CInt) {
        let (server, registry, limits) = (loop.server, loop.registry, loop.server.limits)
        let peer = PeerCredentials(descriptor: socket)
        guard let usage = registry.join(peer, limits) else {
            return registry.refuse(socket, of: peer, limits, server.refusals)
        }
        guard let id = registry.admit(peer, limits) else {
            registry.users.leave(usage)
            var effective = limits
            if !peer.isTrusted { effective.connections = limits.connectionsOfOthers }
            return registry.refuse(socket, effective, server.refusals)
        }
        SocketReader(id: id, server: self, socket: socket, peer: peer, limits: limits, user: usage).start()
    }

    func add(_ connection: Connection) {
        connections[connection.id] = connection
        load.added()
        loop.traffic.connectionsOpen += 1
        loop.traffic.connectionsAccepted += 1
    }

    /// - Parameter lines: the number of lines that the connection has served
    func remove(_ connection: Connection, lines: Int) {
        guard connections.removeValue(forKey: connection.id) != nil else { return }
        load.removed()
        loop.traffic.connectionsOpen -= 1
        loop.registry.connectionEnded(isMonitoring: connection.isMonitoring(lines: lines))
    }

    /// Ends the leases on images that have expired.
    /// - Parameter end: called with the time at which the next lease expires, the distant future if none expires
    private func endLeases(expiredAt now: NIODeadline, andThen end: @escaping (NIODeadline) -> Void) {
        var (expired, next) = ([(connection: Connection, lease: Int)](), NIODeadline.distantFuture)
        let eventLoop = loop.eventLoop
        eventLoop.forEachInSlices(Array(connections.values)) { connection in
            let leases = connection.leases.expiry(at: now)
            for lease in leases.expired { expired.append((connection, lease)) }
            next = min(next, leases.next)
        } andThen: {
            eventLoop.forEachInSlices(expired) { connection, lease in
                if let blob = connection.leases.end(lease, ifExpiredAt: now) {
                    connection.leasesEnded([blob])
                }
            } andThen: {
                end(next)
            }
        }
    }

    // MARK: For the registry

    var traffic: AgentStats.Traffic { loop.traffic }

    var laggingSubscriptions: Int { connections.values.reduce(0) { $0 + $1.subscriptions.laggingCount } }

    var monitoringConnections: Int {
        connections.values.count { $0.isMonitoring(lines: $0.received.lines) }
    }

    func clients() -> [AgentClients.Client] { connections.values.map { AgentClients.Client($0) } }

    func drainAll() {
        for connection in connections.values { connection.drain() }
    }

    func reviewAll() {
        for connection in connections.values { connection.reviewAccess() }
    }

    func closeAll() {
        for connection in connections.values { connection.close() }
    }
}

extension AgentClients.Client {
    /// The connection as `agent.clients` reports it.
    fileprivate init(_ connection: Connection) {
        connection.identifyPeer()
        let (peer, received, output) = (connection.credentials, connection.received, connection.output)
        let acknowledgements = connection.loop.registry.acknowledgements
        self.init(
            id: connection.id, peer: peer.wire, command: peer.command, connectedAt: connection.connectedAt,
            requests: received.lines, subscriptions: connection.subscriptions.count,
            bytesReceived: received.bytes, bytesSent: output.acceptedBytes,
            pendingBytes: output.pendingBytes,
            acknowledged: connection.hasAcknowledged ? acknowledgements.latest(by: connection.id) : [])
    }
}
