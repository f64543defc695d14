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

    /// How long the same request takes as before, in nanoseconds.
    func sameWords() throws(BenchError) -> UInt64 { try read(batch.bytes) }

    /// How long a request takes that the agent has not heard lately, in nanoseconds.
    func newWords() throws(BenchError) -> UInt64 {
        nextWording = (nextWording + 1) % wordings.count
        return try read(wordings[nextWording])
    }

    /// How long the first request takes after a change to another value, in nanoseconds. The change is not timed.
    func afterChange() throws(BenchError) -> UInt64 {
        changes += 1
        try control.ask(change(changes))
        return try read(batch.bytes)
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
