import Glibc

/// Writers at one server, each with a connection and a path of its own, that wait for the reply to one change before they
/// send the next.
final class WriteLoad {
    /// One of them.
    private struct Writer {
        let connection: Connection
        let path: String
        var request: MarkedRequest
        var sentAt: UInt64 = 0
    }

    private let peer: Peer
    private let namespace: String
    private let loop: EpollLoop
    private let control: ControlConnection
    private var writers: [Writer] = []

    /// Connects, and makes sure that the server is set up for what is to be measured.
    init(
        _ peer: Peer, writers count: Int, path: String, namespace: String, bytes: Int, durable: Bool
    ) throws(BenchError) {
        self.peer = peer
        self.namespace = namespace
        loop = try EpollLoop()
        control = try ControlConnection(to: peer)
        try peer.checkDurability(control, namespace: namespace, durable: durable)
        for index in 0..<count {
            let own = "\(path).w\(index)"
            let request = MarkedRequest(valueBytes: bytes) {
                peer.setRequest(path: own, namespace: namespace, value: $0)
            }
            let connection = try Connection(to: peer, index: index)
            try loop.add(connection)
            writers.append(Writer(connection: connection, path: own, request: request))
        }
    }

    /// Measures for `seconds`, after a twentieth of that to warm up, and looks whether what was acknowledged is there.
    func round(seconds: Double) throws(BenchError) -> LoadOutcome {
        _ = try measure(nanoseconds: UInt64(seconds * 5e7))
        let outcome = try measure(nanoseconds: UInt64(seconds * 1e9))
        guard peer.kind != .floor else { return outcome }
        for writer in writers {
            let request = peer.getRequest(path: writer.path, namespace: namespace, id: 100)
            let reply = try control.ask(request)[0]
            let written = writer.request.marker.text
            guard ReplyText.end(of: written, in: reply) != nil else {
                let excerpt = reply.withUnsafeBytes(ReplyText.excerpt)
                throw BenchError(
                    .unexpected, "\(peer.name) lost \(written), which it acknowledged: \(excerpt)")
            }
        }
        return outcome
    }

    /// All begin at once; those who are under way when the time is over are waited for.
    private func measure(nanoseconds length: UInt64) throws(BenchError) -> LoadOutcome {
        var latencies = LatencyHistogram()
        let meter = ProcessorMeter(server: control.serverProcess)
        let started = MonotonicClock.nanoseconds()
        var waiting = 0
        for index in writers.indices {
            try begin(index)
            waiting += 1
        }
        while waiting > 0 {
            try loop.turn { (connection) throws(BenchError) in
                var isAnswered = false
                try connection.receive(into: loop.scratch) { (reply) throws(BenchError) in
                    if let failure = peer.failure(in: reply) { throw failure }
                    isAnswered = true
                }
                guard isAnswered else { return }
                let now = MonotonicClock.nanoseconds()
                latencies.record(now &- writers[connection.index].sentAt)
                if now &- started < length { try begin(connection.index) } else { waiting -= 1 }
            }
        }
        return LoadOutcome(
            latencies: latencies, nanoseconds: MonotonicClock.nanoseconds() &- started, use: meter.use())
    }

    private func begin(_ index: Int) throws(BenchError) {
        writers[index].request.advance()
        let writer = writers[index]
        writers[index].sentAt = MonotonicClock.nanoseconds()
        try loop.send(writer.request.buffer, on: writer.connection)
    }
}
