import ArgumentParser

/// `larder-bench set`: the number of changes per second.
struct SetBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set", abstract: "Set values over many connections, each waiting for its reply.",
        discussion: """
            Every writer sets a path of its own to a value that it has not had, waits for the reply, and begins again. After \
            each round it reads what it has written. The agent's namespace has to have durability "full", Redis to run with \
            appendfsync always; etcd and contrib/benchmarks/floor with a journal need no more. Servers take turns, round by \
            round.
            """)

    @OptionGroup var servers: PeerOptions

    @Option(help: "Writers at the same time.")
    var writers = 1

    @Option(help: "Rounds for each server.")
    var rounds = 5

    @Option(help: "Seconds for each round.")
    var seconds = 2.0

    @Option(help: "Bytes of a value.")
    var bytes = 20

    @Flag(inversion: .prefixedNo, help: "Replies come when the change is on disk.")
    var durable = true

    @Option(help: "The path above those of the writers; in Redis and etcd the beginning of their keys.")
    var path = "bench.writers"

    @Option(help: "The namespace (default: default; relaxed with --no-durable).")
    var namespace: String?

    mutating func validate() throws {
        try servers.requireServer()
        guard writers >= 1, rounds >= 1, seconds > 0 else {
            throw ValidationError("Numbers have to be at least 1, --seconds above 0.")
        }
        guard bytes >= FanoutMarker.length else {
            throw ValidationError("--bytes has to be at least \(FanoutMarker.length).")
        }
    }

    mutating func run() throws {
        try OpenFileLimit.raise(toAtLeast: servers.peers.count * writers)
        let space = namespace ?? (durable ? "default" : "relaxed")
        let loads = try servers.peers.map { peer in
            try WriteLoad(peer, writers: writers, path: path, namespace: space, bytes: bytes, durable: durable)
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
                ("namespace", .text(space)),
            ],
            rows: rows, comparedMetric: "setsPerSecond"
        )
        .warningAboutOthers(outcomes.map { $0.map(\.use).combined })
        .print(asJSON: servers.printsJSON)
    }
}
