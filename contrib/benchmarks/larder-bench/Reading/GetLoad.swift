/// Reads one value from one server as fast as the server replies.
final class GetLoad {
    /// The requests of a connection that are in flight.
    private struct Exchange {
        var sentAt: UInt64 = 0
        var replies = 0
    }

    private let batch: GetBatch
    private let connections: Int

    init(_ batch: GetBatch, connections: Int) {
        self.batch = batch
        self.connections = connections
    }

    /// Opens new connections, warms them up for a twentieth of `seconds`, and measures.
    func round(seconds: Double) throws(BenchError) -> LoadOutcome {
        let loop = try EpollLoop()
        var exchanges = [Exchange](repeating: Exchange(), count: connections)
        var idle: [Connection] = []
        for index in 0..<connections {
            let connection = try Connection(to: batch.peer, index: index)
            try loop.add(connection)
            idle.append(connection)
        }
        for connection in idle { try begin(connection, on: loop, &exchanges, at: MonotonicClock.nanoseconds()) }

        _ = try measure(on: loop, &exchanges, nanoseconds: UInt64(seconds * 5e7))
        return try measure(on: loop, &exchanges, nanoseconds: UInt64(seconds * 1e9))
    }

    /// Keeps all connections busy. The connections already have requests in flight when the measurement begins, and
    /// still have some when it ends.
    private func measure(
        on loop: EpollLoop, _ exchanges: inout [Exchange], nanoseconds length: UInt64
    ) throws(BenchError) -> LoadOutcome {
        var latencies = LatencyHistogram()
        let meter = ProcessorMeter(server: batch.serverProcess)
        let started = MonotonicClock.nanoseconds()
        var now = started
        repeat {
            try loop.processEvents { (connection) throws(BenchError) in
                let before = exchanges[connection.index].replies
                var slot = before
                try connection.receive(into: loop.scratch) { (reply) throws(BenchError) in
                    guard slot < batch.depth, batch.expected.match(reply, at: slot) else {
                        throw batch.mismatchError(reply)
                    }
                    slot += 1
                }
                now = MonotonicClock.nanoseconds()
                latencies.record(now &- exchanges[connection.index].sentAt, occurrences: slot - before)
                exchanges[connection.index].replies = slot
                if slot == batch.depth { try begin(connection, on: loop, &exchanges, at: now) }
            }
        } while now &- started < length
        return LoadOutcome(latencies: latencies, nanoseconds: now &- started, use: meter.use())
    }

    @inline(__always)
    private func begin(
        _ connection: Connection, on loop: EpollLoop, _ exchanges: inout [Exchange], at now: UInt64
    ) throws(BenchError) {
        exchanges[connection.index] = Exchange(sentAt: now)
        try loop.send(batch.bytes.buffer, on: connection)
    }
}
