import ArgumentParser

/// `larder-bench get`: the number of reads per second, and their latency.
struct GetBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get", abstract: "Read one value over many connections.",
        discussion: """
            Each connection repeatedly sends --depth requests in one write and waits for all replies. A latency is the \
            time from the write to a reply. Servers alternate, round by round.
            """)

    @OptionGroup var servers: PeerOptions

    @Option(help: "The number of open connections.")
    var connections = 50

    @Option(help: "The number of requests that a connection sends in one write.")
    var depth = 1

    @Option(help: "The number of rounds for each server.")
    var rounds = 5

    @Option(help: "The length of a round in seconds.")
    var seconds = 2.0

    @Option(help: "The length of a round in requests, instead of --seconds.")
    var requests: Int?

    @Option(help: "The path to read. The benchmark sets its value.")
    var path = "search.limit"

    @Option(help: "The namespace to read.")
    var namespace = "default"

    @Option(help: "The size of the value in bytes.")
    var valueBytes = 2

    @Option(help: "Read an object of at least this many bytes instead of a string; for Redis, its JSON text.")
    var subtreeBytes: Int?

    @Flag(help: "Compare median latencies instead of rates.")
    var latency = false

    mutating func validate() throws {
        try servers.requireServer()
        guard connections >= 1, depth >= 1, rounds >= 1, valueBytes >= 1, seconds > 0, requests ?? 1 >= 1,
            subtreeBytes ?? 1 >= 1, subtreeBytes == nil || depth == 1
        else {
            throw ValidationError("Numbers must be at least 1, --seconds above 0. --subtree-bytes requires --depth 1.")
        }
    }

    mutating func run() throws {
        try OpenFileLimit.raise(toAtLeast: connections)
        let value = String(repeating: "2", count: valueBytes)
        let subtree = try subtreeBytes.map { try SampleDocument.configuration(count: $0) }
        let loads = try servers.peers.map { peer in
            let batch =
                if let subtree {
                    try GetBatch(peer: peer, path: path, namespace: namespace, json: subtree)
                } else {
                    try GetBatch(peer: peer, path: path, namespace: namespace, value: value, depth: depth)
                }
            return GetLoad(batch, connections: connections)
        }
        let extent = requests.map(GetLoad.Extent.requests) ?? .seconds(seconds)
        var outcomes = [[LoadOutcome]](repeating: [], count: loads.count)
        for _ in 0..<rounds {
            for (position, load) in loads.enumerated() { outcomes[position].append(try load.round(extent)) }
        }
        let rows = zip(servers.peers, outcomes).map {
            LoadOutcome.row(
                $0.name, $1, rate: "requestsPerSecond", title: "requests/s", unit: "Request", comparesLatency: latency)
        }
        let length = requests.map { "\($0) requests" } ?? "\(NumberText.grouped(seconds, decimals: 1)) s"
        Report(
            benchmark: "get",
            headline:
                "\(connections) connections, depth \(depth), value of \(subtree?.count ?? valueBytes) bytes, "
                + "\(rounds) rounds of \(length)",
            parameters: [
                ("connections", .count(connections)), ("depth", .count(depth)),
                ("rounds", .count(rounds)), ("valueBytes", .count(subtree?.count ?? valueBytes)),
                ("path", .text(path)), ("namespace", .text(namespace)),
                requests.map { ("requests", .count($0)) } ?? ("seconds", .seconds(seconds)),
            ],
            rows: rows, comparedMetric: latency ? "p50Microseconds" : "requestsPerSecond"
        )
        .warningAboutOthers(outcomes.map { $0.map(\.use).combined })
        .print(asJSON: servers.printsJSON)
    }
}
