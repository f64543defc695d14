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

    @OptionGroup var timing: RoundOptions

    @Option(help: "The number of open connections.")
    var connections = 50

    func validate() throws {
        guard connections >= 1 else { throw ValidationError("--connections must be at least 1.") }
    }

    func run() throws {
        let peer = Peer(kind: .larder, socketPath: socket)
        let batches = [try GetBatch(peer: peer, image: url), try GetBatch(peer: peer)]
        try timing.report(
            "image", "\(connections) connections", batches, names: ["image.get", "config.get"], operation: "request"
        ) { try GetLoad($0, connections: connections).round(seconds: $1) }
        .print()
    }
}
