import CLinuxShims
import Glibc

/// Changes one member, and reads another meanwhile, on one thread.
final class UpdateLoad {
    /// What some changes in a row showed.
    struct Changes: Sendable {
        var latencies = LatencyHistogram()
        /// Processor time of the server for all of them.
        var secondsOfServer = 0.0
    }

    private let peer: Peer
    private let batch: GetBatch
    private let namespace: String
    private let loop: EpollLoop
    private let readers: [Connection]
    private let writer: Connection
    private let watcher: Connection
    private var sentAt: [UInt64]
    private var request: PreparedBytes
    private var number = 0
    private var isWriting = false
    private var sawLast = false

    private static let path = "bench.update.member"

    /// Connects, and subscribes to the member that is to change.
    init(_ peer: Peer, namespace: String, connections count: Int) throws(BenchError) {
        self.peer = peer
        self.namespace = namespace
        batch = try GetBatch(peer: peer, path: "search.limit", namespace: namespace, value: "22", depth: 1)
        loop = try EpollLoop()
        var readers: [Connection] = []
        for index in 0..<count { readers.append(try Connection(to: peer, index: index)) }
        self.readers = readers
        writer = try Connection(to: peer, index: count)
        watcher = try Connection(to: peer, index: count + 1)
        sentAt = [UInt64](repeating: 0, count: count + 2)
        request = PreparedBytes(LarderRequest.subscribe(path: Self.path, namespace: namespace))
        for connection in readers + [writer, watcher] { try loop.add(connection) }
        try loop.send(request.buffer, on: watcher)
    }

    /// Makes `count` changes, one after the other.
    func changes(_ count: Int) throws(BenchError) -> Changes {
        let meter = ProcessorMeter(server: batch.serverProcess)
        var changes = Changes()
        for _ in 0..<count {
            try change()
            while isWriting {
                try loop.turn { (connection) throws(BenchError) in
                    try read(connection) { _ in }
                    if connection === writer, !isWriting {
                        changes.latencies.record(MonotonicClock.nanoseconds() &- sentAt[writer.index])
                    }
                }
            }
        }
        // What is written behind is part of it.
        usleep(200_000)
        changes.secondsOfServer = meter.use().server
        return changes
    }

    /// Keeps the readers busy for a while, and changes the member `pace` times per second if there is a pace.
    func reads(seconds: Double, pace: Double?) throws(BenchError) -> LatencyHistogram {
        var latencies = LatencyHistogram()
        let started = MonotonicClock.nanoseconds()
        let end = started &+ UInt64(seconds * 1e9)
        let interval = pace.map { UInt64(1e9 / $0) }
        var nextChange = started
        var waiting = readers.count
        for reader in readers { try begin(reader) }
        while waiting > 0 || isWriting {
            let now = MonotonicClock.nanoseconds()
            if let interval, now >= nextChange, now < end, !isWriting {
                nextChange &+= interval
                try change()
            }
            try loop.turn { (connection) throws(BenchError) in
                try read(connection) { (reader) throws(BenchError) in
                    let now = MonotonicClock.nanoseconds()
                    latencies.record(now &- sentAt[reader.index])
                    if now < end { try begin(reader) } else { waiting -= 1 }
                }
            }
        }
        return latencies
    }

    /// Waits until the subscriber to the member has its newest value.
    func waitForLastEvent() throws(BenchError) {
        while !sawLast { try loop.turn { (connection) throws(BenchError) in try read(connection) { _ in } } }
    }

    private func change() throws(BenchError) {
        number += 1
        sawLast = false
        request = PreparedBytes(
            LarderRequest.set(path: Self.path, namespace: namespace, value: "change-\(number)-"))
        isWriting = true
        sentAt[writer.index] = MonotonicClock.nanoseconds()
        try loop.send(request.buffer, on: writer)
    }

    private func begin(_ reader: Connection) throws(BenchError) {
        sentAt[reader.index] = MonotonicClock.nanoseconds()
        try loop.send(batch.bytes.buffer, on: reader)
    }

    /// Reads what has arrived; `answered` is called for a reader that has its reply.
    private func read(
        _ connection: Connection, _ answered: (Connection) throws(BenchError) -> Void
    ) throws(BenchError) {
        var isAnswered = false
        try connection.receive(into: loop.scratch) { (line) throws(BenchError) in
            if connection === writer {
                if let failure = peer.failure(in: line) { throw failure }
                isWriting = false
            } else if connection === watcher {
                if let failure = peer.failure(in: line) { throw failure }
                if ReplyText.offset(of: "\"change-\(number)-\"", in: line) != nil { sawLast = true }
            } else {
                guard batch.expected.match(line, at: 0) else { throw batch.surprise(line) }
                isAnswered = true
            }
        }
        if isAnswered { try answered(connection) }
    }
}
