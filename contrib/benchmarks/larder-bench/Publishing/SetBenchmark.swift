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

    @Option(help: "The number of writers.")
    var writers = 1

    @Option(help: "The number of rounds for each server.")
    var rounds = 5

    @Option(help: "The length of a round in seconds.")
    var seconds = 2.0

    @Option(help: "The size of a value in bytes.")
    var bytes = 20

    @Flag(inversion: .prefixedNo, help: "Require that each change is on disk before its reply.")
    var durable = true

    @Option(help: "The parent path of the writers; for Redis and etcd the prefix of their keys.")
    var path = "bench.writers"

    @Option(help: "The namespace (default: default; relaxed with --no-durable).")
    var namespace: String?

    mutating func validate() throws {
        try servers.requireServer()
        guard writers >= 1, rounds >= 1, seconds > 0 else {
            throw ValidationError("--writers and --rounds must be at least 1, --seconds must be above 0.")
        }
        guard bytes >= FanoutMarker.length else {
            throw ValidationError("--bytes must be at least \(FanoutMarker.length).")
        }
    }

    mutating func run() throws {
        try OpenFileLimit.raise(toAtLeast: servers.peers.count * writers)
        let usedNamespace = namespace ?? (durable ? "default" : "relaxed")
        let loads = try servers.peers.map { peer in
            try WriteLoad(peer, writers: writers, path: path, namespace: usedNamespace, bytes: bytes, durable: durable)
        }
        var outcomes = [[LoadOutcome]](repeating: [], count: loads.count)
        for _ in 0..<rounds {
            for (position, load) in loads.enumerated() { outcomes[position].append(try load.round(seconds: seconds)) }
        }
        let rows = zip(servers.peers, outcomes).map {
            LoadOutcome.row($0.name, $1, rate: "setsPerSecond", title: "sets/s", unit: "Set")
        }
        Report(
            benchmark: "set",
            headline: "\(writers) writers, values of \(bytes) bytes, \(durable ? "durable" : "relaxed"), "
                + "\(rounds) rounds of \(NumberText.grouped(seconds, decimals: 1)) s",
            parameters: [
                ("writers", .count(writers)), ("rounds", .count(rounds)), ("seconds", .seconds(seconds)),
                ("bytes", .count(bytes)), ("durable", .flag(durable)), ("path", .text(path)),
                ("namespace", .text(usedNamespace)),
            ],
            rows: rows, comparedMetric: "setsPerSecond"
        )
        .warningAboutOthers(outcomes.map { $0.map(\.use).combined })
        .print(asJSON: servers.printsJSON)
    }
}
