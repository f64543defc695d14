import ArgumentParser
import Glibc

/// `larder-bench fanout`: the time from a publication to its arrival at the last of many subscribers.
struct FanoutBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fanout", abstract: "Publish one value to many subscribers.",
        discussion: """
            A round sends a config.set, and waits until every subscriber has received the event and the publisher its \
            reply. Events are read and checked after the clock has stopped, except for events over 16 KiB, which do not \
            arrive in one piece. For Redis, a round is a PUBLISH. With --durable it is SET and PUBLISH in one write to a \
            server with appendfsync always, compared with a config.set in a namespace with durability "full". Servers \
            alternate, block by block, with a pause in which each finishes its background work. If the limit of open \
            files does not allow connections to all servers at the same time, those of a server are closed after its \
            block.
            """)

    @OptionGroup var servers: PeerOptions

    @Option(help: "The number of subscribers. Each has a separate connection.")
    var subscribers = 1000

    @Option(help: "The number of rounds for each server.")
    var rounds = 200

    @Option(help: "The number of blocks into which the rounds are divided.")
    var blocks = 10

    @Option(help: "The size of the published value in bytes.")
    var bytes = 100

    @Flag(inversion: .prefixedNo, help: "Require that each value is on disk before it is published.")
    var durable = false

    mutating func validate() throws {
        try servers.requireServer()
        guard subscribers >= 1, blocks >= 1, rounds >= blocks else {
            throw ValidationError(
                "--subscribers and --blocks must be at least 1, --rounds at least the number of blocks.")
        }
        guard bytes >= FanoutMarker.length else {
            throw ValidationError("--bytes must be at least \(FanoutMarker.length).")
        }
    }

    /// The pause in which a server finishes deferred work, such as background writes, freeing memory and logging.
    private static let pauseMicroseconds: UInt32 = 50_000

    /// The pause for deferred work after thousands of connections were opened or closed.
    private static let longPauseMicroseconds: UInt32 = 500_000

    mutating func run() throws {
        let peers = servers.peers
        let keepsConnections = OpenFileLimit.allows(peers.count * (subscribers + 1))
        let namespace = durable ? "default" : "relaxed"
        func group(_ peer: Peer) throws -> FanoutGroup {
            try FanoutGroup(
                peer, subscribers: subscribers, namespace: namespace, bytes: bytes, isDurable: durable)
        }
        let groups = keepsConnections ? try peers.map(group) : []
        var outcomes = [[FanoutGroup.Block]](repeating: [], count: peers.count)
        for block in 0..<blocks {
            let length = rounds * (block + 1) / blocks - rounds * block / blocks
            for (position, peer) in peers.enumerated() {
                let group = try keepsConnections ? groups[position] : group(peer)
                usleep(keepsConnections ? Self.pauseMicroseconds : Self.longPauseMicroseconds)
                outcomes[position].append(try group.block(rounds: length))
            }
        }
        Report(
            benchmark: "fanout",
            headline: "\(bytes) bytes to \(subscribers) subscribers, \(durable ? "durable" : "relaxed"), "
                + "\(rounds) rounds in \(blocks) blocks; µs from the publication to the last subscriber",
            rows: zip(servers.peers, outcomes).map { row($0.name, $1) }, comparedMetric: "medianMicroseconds"
        )
        .warningAboutOthers(outcomes.map { $0.map(\.use).combined })
        .print()
    }

    private func row(_ name: String, _ blocks: [FanoutGroup.Block]) -> Report.Row {
        let last = blocks.flatMap(\.lastDelivery)
        let metrics = [
            (key: "medianMicroseconds", value: Statistics.median(last)),
            ("p99Microseconds", Statistics.percentile(last, 99)), ("maxMicroseconds", last.max() ?? 0),
            ("microsecondsPerSubscriber", Statistics.median(last) / Double(subscribers)),
            ("replyMedianMicroseconds", Statistics.median(blocks.flatMap(\.reply))),
        ]
        // The processor time of a block includes its warm-up round, so the events of that round count, too.
        let events = Double((last.count + blocks.count) * subscribers)
        return Report.Row(
            name: name,
            metrics: metrics
                + Report.Row.processorMetrics(blocks.map(\.use).combined, operations: events),
            samples: blocks.map { Statistics.median($0.lastDelivery) })
    }
}
