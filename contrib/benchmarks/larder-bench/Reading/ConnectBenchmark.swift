import ArgumentParser

/// `larder-bench connect`: the number of clients per second that connect, read one value and disconnect.
struct ConnectBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "connect", abstract: "Repeatedly connect, read one value and disconnect.",
        discussion: """
            Clients connect one at a time, or --parallel at a time. A latency is the time from before connect(2) to the \
            reply. Servers alternate, round by round. The benchmark sets the value that it reads.
            """)

    @OptionGroup var servers: PeerOptions

    @OptionGroup var timing: RoundOptions

    @Option(help: "The number of concurrent clients.")
    var parallel = 1

    mutating func validate() throws {
        try servers.requireServer()
        guard parallel >= 1 else { throw ValidationError("--parallel must be at least 1.") }
    }

    mutating func run() throws {
        let loads = try servers.peers.map { ConnectLoad(try GetBatch(peer: $0), parallel: parallel) }
        try timing.report(
            "connect", "connect, get, close; \(parallel) at a time", loads, names: servers.names,
            operation: "connection"
        ) { try $0.round(seconds: $1) }
        .print()
    }
}
