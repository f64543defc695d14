/// Connections whose subscriptions have been confirmed.
final class SubscriberGroup {
    let loop: EpollLoop
    let connections: [Connection]

    /// Opens `count` connections, sends `request` on each, and waits for all replies. The connections are numbered from
    /// 0.
    /// - Throws: an error if the server refuses a subscription.
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
            try loop.processEvents { (connection) throws(BenchError) in
                try connection.receive(into: loop.scratch) { (reply) throws(BenchError) in
                    // Ignores the event with the first snapshot, which follows the reply.
                    guard !isSubscribed[connection.index] else { return }
                    if let failure = peer.failure(in: reply) { throw failure }
                    isSubscribed[connection.index] = true
                    missing -= 1
                }
            }
        }
    }
}
