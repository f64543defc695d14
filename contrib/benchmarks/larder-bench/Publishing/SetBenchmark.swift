import ArgumentParser

/// `larder-bench set`: the number of changes per second.
struct SetBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Set values over many connections, each of which waits for its reply.",
        discussion: """
            Each writer repeatedly sets a separate path to a new value and waits for the reply. After each round it reads \
            its value. The namespace `default` of the agent must have durability "full", and Redis must have appendfsync always. \
            etcd always writes to disk; the floor needs a journal. Servers alternate, round by round.
            """)

    @OptionGroup var servers: PeerOptions

    @OptionGroup var timing: RoundOptions

    @Option(help: "The number of writers.")
    var writers = 1

    mutating func validate() throws {
        try servers.requireServer()
        guard writers >= 1 else { throw ValidationError("--writers must be at least 1.") }
    }

    mutating func run() throws {
        let loads = try servers.peers.map { try WriteLoad($0, writers: writers) }
        try timing.report("set", "\(writers) writers, durable", loads, names: servers.names, operation: "set") {
            try $0.round(seconds: $1)
        }
        .print()
    }
}
