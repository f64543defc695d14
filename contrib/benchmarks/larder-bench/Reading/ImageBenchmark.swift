import ArgumentParser

/// `larder-bench image`: requests per second for a cached image.
struct ImageBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "image", abstract: "Measure requests for a cached image, and compare them with config.get.",
        discussion: """
            Works like `larder-bench get --depth 1`, and alternates between image.get and config.get on one agent. The \
            image file is not read.
            """)

    @Option(help: ArgumentHelp("The agent's socket.", valueName: "path"))
    var socket: String

    @Option(help: "The image's URL.")
    var url: String

    @Option(help: "The number of open connections.")
    var connections = 50

    @Option(help: "The number of rounds for each method.")
    var rounds = 5

    @Option(help: "The length of a round in seconds.")
    var seconds = 2.0

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    func validate() throws {
        guard connections >= 1, rounds >= 1, seconds > 0 else {
            throw ValidationError("--connections and --rounds must be at least 1, --seconds must be above 0.")
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
            benchmark: "image",
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
