import ArgumentParser
import LarderJSON

/// `larder-bench get`: the number of reads per second, and their latency.
struct GetBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get", abstract: "Read one value over many connections.",
        discussion: """
            Each connection repeatedly sends --depth requests in one write and waits for all replies. A latency is the \
            time from the write to a reply. Servers alternate, round by round. The benchmark sets the value that it reads.
            """)

    @OptionGroup var servers: PeerOptions

    @OptionGroup var timing: RoundOptions

    @Option(help: "The number of open connections.")
    var connections = 50

    @Option(help: "The number of requests that a connection sends in one write.")
    var depth = 1

    @Option(help: "The path to read.")
    var path = "search.limit"

    @Option(help: "The namespace to read.")
    var namespace = "default"

    @Option(help: "Read an object of at least this many bytes instead of a number; for Redis, its JSON text.")
    var subtreeBytes: Int?

    @Flag(help: "Compare median latencies instead of rates.")
    var latency = false

    mutating func validate() throws {
        try servers.requireServer()
        guard connections >= 1, depth >= 1, subtreeBytes ?? 1 >= 1, subtreeBytes == nil || depth == 1 else {
            throw ValidationError("Numbers must be at least 1. --subtree-bytes requires --depth 1.")
        }
    }

    mutating func run() throws {
        let value = subtreeBytes.map { SampleDocument.value(bytes: $0) } ?? "22"
        let loads = try servers.peers.map { peer in
            let batch = try GetBatch(peer: peer, path: path, namespace: namespace, value: value, depth: depth)
            return GetLoad(batch, connections: connections)
        }
        let bytes = (value.string ?? value.compactText).utf8.count
        try timing.report(
            "get", "\(connections) connections, depth \(depth), value of \(bytes) bytes", loads,
            names: servers.names, operation: "request", comparesLatency: latency
        ) { try $0.round(seconds: $1) }
        .print()
    }
}
