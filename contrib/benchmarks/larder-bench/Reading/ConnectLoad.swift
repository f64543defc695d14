/// Repeatedly connects to one server, reads one value and closes the connection.
final class ConnectLoad {
    private let batch: GetBatch
    private let parallel: Int

    init(_ batch: GetBatch, parallel: Int) {
        self.batch = batch
        self.parallel = parallel
    }

    /// Measures for `seconds`, after a warm-up of a twentieth of that time.
    func round(seconds: Double) throws(BenchError) -> LoadOutcome {
        _ = try measure(nanoseconds: UInt64(seconds * 5e7))
        return try measure(nanoseconds: UInt64(seconds * 1e9))
    }

    private func measure(nanoseconds length: UInt64) throws(BenchError) -> LoadOutcome {
        let loop = try EpollLoop()
        var startedAt = [UInt64](repeating: 0, count: parallel)
        var latencies = LatencyHistogram()
        let meter = ProcessorMeter(server: batch.serverProcess)
        let started = MonotonicClock.nanoseconds()
        var now = started
        for index in 0..<parallel { try begin(index, on: loop, &startedAt) }
        repeat {
            try loop.processEvents { (connection) throws(BenchError) in
                var isAnswered = false
                try connection.receive(into: loop.scratch) { (reply) throws(BenchError) in
                    guard batch.expected.match(reply, at: 0) else { throw batch.mismatchError(reply) }
                    isAnswered = true
                }
                guard isAnswered else { return }
                now = MonotonicClock.nanoseconds()
                latencies.record(now &- startedAt[connection.index])
                loop.remove(connection)
                try begin(connection.index, on: loop, &startedAt)
            }
        } while now &- started < length
        return LoadOutcome(latencies: latencies, nanoseconds: now &- started, use: meter.use())
    }

    private func begin(_ index: Int, on loop: EpollLoop, _ startedAt: inout [UInt64]) throws(BenchError) {
        startedAt[index] = MonotonicClock.nanoseconds()
        let connection = try Connection(to: batch.peer, index: index)
        try loop.add(connection)
        try loop.send(batch.bytes.buffer, on: connection)
    }
}
