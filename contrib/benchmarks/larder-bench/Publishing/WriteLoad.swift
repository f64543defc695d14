import Glibc
import LarderJSON

/// Writers at one server. Each has its own connection and path, and sends a change when it has the reply to the
/// previous one.
final class WriteLoad {
    private struct Writer {
        let connection: Connection
        let path: String
        var request: MarkedRequest
        var sentAt: UInt64 = 0
    }

    private let peer: Peer
    private let namespace = "default"
    private let loop: EpollLoop
    private let control: ControlConnection
    private var writers: [Writer] = []

    /// Connects, and checks that the server's settings suit the measurement.
    init(_ peer: Peer, writers count: Int) throws(BenchError) {
        self.peer = peer
        loop = try EpollLoop()
        control = try ControlConnection(to: peer)
        try peer.checkDurability(control, namespace: namespace, durable: true)
        for index in 0..<count {
            let path = "bench.writers.w\(index)"
            let request = MarkedRequest(valueBytes: 20) {
                peer.setRequest(path: path, namespace: namespace, value: .string($0))
            }
            let connection = try Connection(to: peer, index: index)
            try loop.add(connection)
            writers.append(Writer(connection: connection, path: path, request: request))
        }
    }

    /// Measures for `seconds`, after a warm-up of a twentieth of that time. Then checks that the last acknowledged
    /// change of each writer can be read.
    func round(seconds: Double) throws(BenchError) -> LoadOutcome {
        _ = try measure(nanoseconds: UInt64(seconds * 5e7))
        let outcome = try measure(nanoseconds: UInt64(seconds * 1e9))
        guard peer.kind != .floor else { return outcome }
        for writer in writers {
            let request = peer.getRequest(path: writer.path, namespace: namespace, id: 100)
            let reply = try control.request(request)[0]
            let written = writer.request.marker.text
            guard ReplyText.end(of: written, in: reply) != nil else {
                let excerpt = reply.withUnsafeBytes(ReplyText.excerpt)
                throw BenchError(
                    "\(peer.name) lost the acknowledged value \(written): \(excerpt)")
            }
        }
        return outcome
    }

    /// All writers start at the same time. Requests in flight at the end of the time are awaited.
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
            try loop.processEvents { (connection) throws(BenchError) in
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
