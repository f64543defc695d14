/// The connections of one event loop, with the monitor that closes connections whose clients do not read.
final class ConnectionTable {
    private(set) var connections: [Int: Connection] = [:]
    let stalls = StallMonitor()
    private let load: LoopLoad

    init(_ load: LoopLoad) { self.load = load }

    func add(_ connection: Connection) {
        connections[connection.id] = connection
        load.added()
    }

    /// - Returns: false if the connection was removed earlier
    func remove(_ connection: Connection) -> Bool {
        guard connections.removeValue(forKey: connection.id) != nil else { return false }
        load.removed()
        return true
    }
}
