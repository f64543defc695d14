import ArgumentParser

/// `larder-bench set`: the number of changes per second.
struct SetBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Set values over many connections, each of which waits for its reply.",
        discussion: """
            Each writer repeatedly sets a separate path to a new value and waits for the reply. After each round it reads \
            its value. The namespace of the agent must have durability "full", and Redis must have appendfsync always. \
            etcd always writes to disk; the floor needs a journal. Servers alternate, round by round.
            """)

    @OptionGroup var servers: PeerOptions

    @OptionGroup var timing: RoundOptions

    @Option(help: "The number of writers.")
    var writers = 1

    @Flag(inversion: .prefixedNo, help: "Require that each change is on disk before its reply.")
    var durable = true

    @Option(help: "The namespace (default: default; relaxed with --no-durable).")
    var namespace: String?

    mutating func validate() throws {
        try servers.requireServer()
        guard writers >= 1 else { throw ValidationError("--writers must be at least 1.") }
    }

    mutating func run() throws {
        try OpenFileLimit.raise(toAtLeast: servers.peers.count * writers)
        let usedNamespace = namespace ?? (durable ? "default" : "relaxed")
        let loads = try servers.peers.map { peer in
            try WriteLoad(peer, writers: writers, namespace: usedNamespace, durable: durable)
        }
        try timing.report(
            "set", "\(writers) writers, \(durable ? "durable" : "relaxed")", loads, names: servers.names,
            operation: "set"
        ) { try $0.round(seconds: $1) }
        .print(asJSON: servers.printsJSON)
    }
}
