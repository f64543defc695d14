/// Reads one value over some connections, which it keeps, for a while at a time.
final class LatencyProbe {
    private let batch: GetBatch
    private let loop: EpollLoop
    private let connections: [Connection]
    private var sentAt: [UInt64]

    init(_ batch: GetBatch, connections count: Int) throws(BenchError) {
        self.batch = batch
        loop = try EpollLoop()
        var connections: [Connection] = []
        for index in 0..<count {
            let connection = try Connection(to: batch.peer, index: index)
            try loop.add(connection)
            connections.append(connection)
        }
        self.connections = connections
        sentAt = [UInt64](repeating: 0, count: count)
    }

    /// Keeps all connections busy for a while. None is at its end.
    func run(seconds: Double) throws(BenchError) -> LatencyHistogram {
        let end = MonotonicClock.nanoseconds() &+ UInt64(seconds * 1e9)
        var latencies = LatencyHistogram()
        var waiting = 0
        for connection in connections {
            try begin(connection, at: MonotonicClock.nanoseconds())
            waiting += 1
        }
        while waiting > 0 {
            try loop.turn { (connection) throws(BenchError) in
                var isAnswered = false
                try connection.receive(into: loop.scratch) { (reply) throws(BenchError) in
                    guard batch.expected.match(reply, at: 0) else { throw batch.surprise(reply) }
                    isAnswered = true
                }
                guard isAnswered else { return }
                let now = MonotonicClock.nanoseconds()
                latencies.record(now &- sentAt[connection.index])
                if now < end { try begin(connection, at: now) } else { waiting -= 1 }
            }
        }
        return latencies
    }

    private func begin(_ connection: Connection, at now: UInt64) throws(BenchError) {
        sentAt[connection.index] = now
        try loop.send(batch.bytes.buffer, on: connection)
    }
}
