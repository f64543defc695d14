/// One connection that reads one small value, one request at a time.
final class GrowthProbe {
    private let peer: Peer
    private let loop: EpollLoop
    private let connection: Connection
    private let batch: GetBatch
    private let control: ControlConnection
    private let change: (Int) -> [UInt8]
    private var changes = 0
    /// Requests for the same value in many words, used in turn. There are more of them than the agent remembers.
    private let wordings: [PreparedBytes]
    private var nextWording = 0

    /// Sets the value at `path`, and connects.
    init(_ peer: Peer, path: String, namespace: String) throws(BenchError) {
        self.peer = peer
        loop = try EpollLoop()
        connection = try Connection(to: peer, index: 0)
        try loop.add(connection)
        batch = try GetBatch(peer: peer, path: path, namespace: namespace, value: "22", depth: 1)
        control = try ControlConnection(to: peer)
        change = { LarderRequest.set(path: "bench.growth", namespace: namespace, value: String($0)) }
        let request = Array(batch.bytes.buffer.dropLast())
        wordings = (0..<4096).map { number in
            // White space after a message means nothing.
            var spaces: [UInt8] = []
            for bit in 0..<12 { spaces.append(UInt8(ascii: number >> bit & 1 == 0 ? " " : "\t")) }
            return PreparedBytes(request + spaces + [UInt8(ascii: "\n")])
        }
    }

    /// The same request again and again.
    func sameWords(seconds: Double) throws(BenchError) -> LatencyHistogram {
        try run(seconds: seconds) { batch.bytes }
    }

    /// Requests that the agent has not heard lately.
    func newWords(seconds: Double) throws(BenchError) -> LatencyHistogram {
        try run(seconds: seconds) {
            nextWording = (nextWording + 1) % wordings.count
            return wordings[nextWording]
        }
    }

    /// The first request after each of some changes to another value. The changes are not timed.
    func afterChanges(count: Int) throws(BenchError) -> LatencyHistogram {
        var latencies = LatencyHistogram()
        for _ in 0..<count {
            changes += 1
            try control.ask(change(changes))
            latencies.record(try read(batch.bytes))
        }
        return latencies
    }

    private func run(seconds: Double, _ next: () -> PreparedBytes) throws(BenchError) -> LatencyHistogram {
        let end = MonotonicClock.nanoseconds() &+ UInt64(seconds * 1e9)
        var latencies = LatencyHistogram()
        repeat { latencies.record(try read(next())) } while MonotonicClock.nanoseconds() < end
        return latencies
    }

    private func read(_ request: PreparedBytes) throws(BenchError) -> UInt64 {
        var isAnswered = false
        let started = MonotonicClock.nanoseconds()
        try loop.send(request.buffer, on: connection)
        while !isAnswered {
            try loop.turn { (connection) throws(BenchError) in
                try connection.receive(into: loop.scratch) { (reply) throws(BenchError) in
                    guard batch.expected.match(reply, at: 0) else { throw batch.surprise(reply) }
                    isAnswered = true
                }
            }
        }
        return MonotonicClock.nanoseconds() &- started
    }
}
