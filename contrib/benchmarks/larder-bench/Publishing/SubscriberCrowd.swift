/// Connections that have each subscribed and been told so.
final class SubscriberCrowd {
    let loop: EpollLoop
    let connections: [Connection]

    /// Connects `count` times, sends `request` on each, and waits for all replies. Connections are numbered from 0.
    /// - Throws: `.refused` when one is not allowed to subscribe.
    init(_ peer: Peer, count: Int, request: [UInt8]) throws(BenchError) {
        let loop = try EpollLoop()
        self.loop = loop
        let bytes = PreparedBytes(request)
        var connections: [Connection] = []
        for index in 0..<count {
            let connection = try Connection(to: peer, index: index)
            try loop.add(connection)
            try loop.send(bytes.buffer, on: connection)
            connections.append(connection)
        }
        self.connections = connections
        var isSubscribed = [Bool](repeating: false, count: count)
        var missing = count
        while missing > 0 {
            try loop.turn { (connection) throws(BenchError) in
                try connection.receive(into: loop.scratch) { (reply) throws(BenchError) in
                    // What follows the reply is the event of the first snapshot.
                    guard !isSubscribed[connection.index] else { return }
                    if let failure = peer.failure(in: reply) { throw failure }
                    isSubscribed[connection.index] = true
                    missing -= 1
                }
            }
        }
    }
}
