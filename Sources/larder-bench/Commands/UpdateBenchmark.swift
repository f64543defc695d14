import CLinuxShims
import ArgumentParser
import Glibc
import LarderJSON

/// `larder-bench update`: what changes of one member of a large configuration do to those who look elsewhere.
struct UpdateBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "update", abstract: "Change one member of a large configuration while others look elsewhere.",
        discussion: """
            Hands over a document, subscribes to parts of it that stay as they are, and changes one other member: one change \
            after the other, to see what one costs the server with and without these subscribers, and at --pace while a few \
            connections read another value. A subscriber to the member itself has to see the last change, all others nothing.
            """)

    @Option(name: .customLong("socket"), help: ArgumentHelp("The agent's socket.", valueName: "path"))
    var socket: String

    @Option(help: "Bytes of the configuration.")
    var bytes = 1_000_000

    @Option(help: "Subscribers to parts that do not change.")
    var subscribers = 100

    @Option(help: "Changes that are made to see what one costs.")
    var changes = 200

    @Option(help: "Changes per second while others read.")
    var pace = 50.0

    @Option(help: "Connections that read, one request each at a time.")
    var connections = 4

    @Option(help: "Seconds that they read, without changes and with them.")
    var seconds = 4.0

    @Option(help: "The namespace.")
    var namespace = "updates"

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    mutating func validate() throws {
        guard bytes >= 1000, subscribers >= 1, changes >= 1, pace > 0, connections >= 1, seconds > 0 else {
            throw ValidationError("Numbers have to be at least 1, --bytes at least 1000, --pace and --seconds above 0.")
        }
    }

    mutating func run() throws {
        try OpenFileLimit.raise(toAtLeast: subscribers + connections + 8)
        let peer = Peer(kind: .larder, socketPath: socket)
        let document = SampleDocument.bytes(count: bytes)
        let control = try ControlConnection(to: peer)
        try control.ask(LarderRequest.push(document, namespace: namespace))
        let load = try UpdateLoad(peer, namespace: namespace, connections: connections)

        _ = try load.changes(max(1, changes / 10))
        let alone = try load.changes(changes)
        let watchers = try Watchers(peer, document, namespace: namespace, count: subscribers)
        try watchers.settle()
        let watched = try load.changes(changes)
        let quiet = try load.reads(seconds: seconds, pace: nil)
        let busy = try load.reads(seconds: seconds, pace: pace)
        try load.waitForLastEvent()
        let events = try watchers.events()

        let cost = (watched.secondsOfServer - alone.secondsOfServer) / Double(changes * subscribers) * 1e6
        func row(_ name: String, _ latencies: LatencyHistogram, _ change: UpdateLoad.Changes) -> Report.Row {
            func figure(_ key: String, _ title: String, _ value: Double, _ decimals: Int = 1) -> Report.Metric {
                .init(key: key, title: title, value: value, decimals: decimals)
            }
            return Report.Row(
                name: name,
                metrics: [
                    figure("p50Microseconds", "get p50 µs", Double(latencies.percentile(50)) / 1000),
                    figure("p99Microseconds", "get p99 µs", Double(latencies.percentile(99)) / 1000),
                    figure("maxMicroseconds", "get max µs", Double(latencies.maximum) / 1000),
                    figure("changeMicroseconds", "change p50 µs", Double(change.latencies.percentile(50)) / 1000),
                    figure(
                        "serverMicrosecondsPerChange", "server CPU µs/change",
                        change.secondsOfServer / Double(changes) * 1e6),
                ], samples: [Double(latencies.percentile(99)) / 1000])
        }
        var changing = row("changing", busy, watched)
        changing.metrics += [
            Report.Metric(key: "eventsAtOthers", title: "events at others", value: Double(events)),
            Report.Metric(
                key: "microsecondsPerOther", title: "server CPU µs/change/other", value: cost, decimals: 3),
        ]
        Report(
            benchmark: "update",
            headline: "one member of \(document.count) bytes changes, \(subscribers) subscribers elsewhere, "
                + "\(connections) connections read",
            parameters: [
                ("bytes", .count(document.count)), ("subscribers", .count(subscribers)), ("changes", .count(changes)),
                ("pace", .seconds(pace)), ("connections", .count(connections)), ("seconds", .seconds(seconds)),
                ("namespace", .text(namespace)),
            ],
            rows: [changing, row("quiet", quiet, alone)], comparedMetric: nil
        ).print(asJSON: printsJSON)
    }
}

/// Subscribers to parts of a document, one connection for each, that expect nothing after their first event.
private final class Watchers {
    private let loop: EpollLoop
    private var connections: [Connection] = []
    private var seen = 0

    init(_ peer: Peer, _ document: [UInt8], namespace: String, count: Int) throws {
        loop = try EpollLoop()
        let names = try JSONValue(parsing: document)["services"]?.members.map(\.name) ?? []
        guard !names.isEmpty else { throw BenchError(.unsuitable, "the document has no services: choose more --bytes") }
        var requests: [PreparedBytes] = []
        for index in 0..<count {
            let connection = try Connection(to: peer, index: index)
            try loop.add(connection)
            let path = "services.\(names[index % names.count])"
            requests.append(PreparedBytes(LarderRequest.subscribe(path: path, namespace: namespace)))
            try loop.send(requests[index].buffer, on: connection)
            connections.append(connection)
        }
        // Each is sent its reply and the first event.
        while seen < 2 * count {
            try loop.turn { (connection) throws(BenchError) in try read(connection, peer) }
        }
    }

    /// Looks that nothing more comes by itself.
    func settle() throws(BenchError) {
        usleep(100_000)
        guard try events() == 0 else { throw BenchError(.unexpected, "larder sends events without a change") }
    }

    /// How many events have come since the first ones.
    func events() throws(BenchError) -> Int {
        usleep(100_000)
        for connection in connections { try connection.receive(into: loop.scratch) { _ in seen += 1 } }
        return seen - 2 * connections.count
    }

    private func read(_ connection: Connection, _ peer: Peer) throws(BenchError) {
        try connection.receive(into: loop.scratch) { (line) throws(BenchError) in
            if let failure = peer.failure(in: line) { throw failure }
            seen += 1
        }
    }
}
