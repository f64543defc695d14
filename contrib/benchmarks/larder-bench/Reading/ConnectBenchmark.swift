import ArgumentParser

/// `larder-bench connect`: the number of clients per second that connect, read one value and disconnect.
struct ConnectBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "connect", abstract: "Repeatedly connect, read one value and disconnect.",
        discussion: """
            Clients connect one at a time, or --parallel at a time. A latency is the time from before connect(2) to the \
            reply. Servers alternate, round by round.
            """)

    @OptionGroup var servers: PeerOptions

    @Option(help: "The number of concurrent clients.")
    var parallel = 1

    @Option(help: "The number of rounds for each server.")
    var rounds = 5

    @Option(help: "The length of a round in seconds.")
    var seconds = 1.0

    @Option(help: "The path to read. The benchmark sets its value.")
    var path = "search.limit"

    @Option(help: "The namespace to read.")
    var namespace = "default"

    mutating func validate() throws {
        try servers.requireServer()
        guard parallel >= 1, rounds >= 1, seconds > 0 else {
            throw ValidationError("--parallel and --rounds must be at least 1, --seconds must be above 0.")
        }
    }

    mutating func run() throws {
        try OpenFileLimit.raise(toAtLeast: parallel)
        let loads = try servers.peers.map { peer in
            ConnectLoad(
                try GetBatch(peer: peer, path: path, namespace: namespace, value: "22", depth: 1), parallel: parallel)
        }
        var outcomes = [[LoadOutcome]](repeating: [], count: loads.count)
        for _ in 0..<rounds {
            for (position, load) in loads.enumerated() { outcomes[position].append(try load.round(seconds: seconds)) }
        }
        let rows = zip(servers.peers, outcomes).map {
            LoadOutcome.row($0.name, $1, rate: "connectionsPerSecond", title: "connections/s", unit: "Connection")
        }
        Report(
            benchmark: "connect",
            headline: "connect, get, close; \(parallel) at a time, \(rounds) rounds of "
                + "\(NumberText.grouped(seconds, decimals: 1)) s",
            parameters: [
                ("parallel", .count(parallel)), ("rounds", .count(rounds)),
                ("seconds", .seconds(seconds)), ("path", .text(path)), ("namespace", .text(namespace)),
            ],
            rows: rows, comparedMetric: "connectionsPerSecond"
        )
        .warningAboutOthers(outcomes.map { $0.map(\.use).combined })
        .print(asJSON: servers.printsJSON)
    }
}
