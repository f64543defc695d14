import ArgumentParser

/// `larder-bench image rate`: requests per second for a cached image.
struct ImageRateBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rate", abstract: "Answer image.get for an image that is held, beside config.get.",
        discussion: """
            As `larder-bench get --depth 1`, with image.get and config.get in turn on the same agent. No file is read.
            """)

    @Option(help: ArgumentHelp("The agent's socket.", valueName: "path"))
    var socket: String

    @Option(help: "The image's URL.")
    var url: String

    @Option(help: "Connections open at the same time.")
    var connections = 50

    @Option(help: "Rounds for each method.")
    var rounds = 5

    @Option(help: "Seconds for each round.")
    var seconds = 2.0

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    func validate() throws {
        guard connections >= 1, rounds >= 1, seconds > 0 else {
            throw ValidationError("Numbers have to be at least 1, --seconds above 0.")
        }
    }

    func run() throws {
        try OpenFileLimit.raise(toAtLeast: connections)
        let peer = Peer(kind: .larder, socketPath: socket)
        let batches = [
            ("image.get", try GetBatch(peer: peer, image: url)),
            (
                "config.get",
                try GetBatch(peer: peer, path: "search.limit", namespace: "default", value: "22", depth: 1)
            ),
        ]
        var outcomes = [[LoadOutcome]](repeating: [], count: batches.count)
        for _ in 0..<rounds {
            for (position, batch) in batches.enumerated() {
                outcomes[position].append(try GetLoad(batch.1, connections: connections).round(.seconds(seconds)))
            }
        }
        let rows = zip(batches, outcomes).map {
            LoadOutcome.row($0.0, $1, rate: "requestsPerSecond", title: "requests/s", unit: "Request")
        }
        Report(
            benchmark: "image rate",
            headline: "\(connections) connections, \(rounds) rounds of \(NumberText.grouped(seconds, decimals: 1)) s",
            parameters: [
                ("connections", .count(connections)), ("rounds", .count(rounds)), ("seconds", .seconds(seconds)),
            ],
            rows: rows, comparedMetric: "requestsPerSecond"
        )
        .warningAboutOthers(outcomes.map { $0.map(\.use).combined })
        .print(asJSON: printsJSON)
    }
}
