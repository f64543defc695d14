import ArgumentParser
import LarderClient

/// `larder history`
struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "List the newest snapshots and why each was published.",
        discussion: """
            The agent knows the last 16, after a restart as well.

            EXAMPLES:
              larder history
              larder history --limit 3 -n billing
              larder history --json | jq '.generations[] | {revision, causes}'
            """)

    @Option(help: ArgumentHelp("Show at most this many, 1 to 16.", valueName: "number"))
    var limit: Int?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        let possible = 1...ConfigHistory.Parameters.mostGenerations
        if let limit, !possible.contains(limit) {
            throw ValidationError("--limit must be 1 to \(possible.upperBound), not \(limit)")
        }
    }

    func run() async throws {
        let parameters = ConfigHistory.Parameters(namespace: namespace.namespace, limit: limit)
        try await agent.printResult(of: ConfigHistory.self, parameters) { result in
            HistoryReport(now: .now).text(result.generations)
        }
    }
}

/// `larder history` for people: one line for each snapshot, newest first, the current one marked.
struct HistoryReport {
    /// The time that ages are counted from.
    let now: Timestamp

    private static let table = TextTable(
        headings: ["", "REVISION", "PUBLISHED", "SIZE", "VERSION", "BECAUSE OF"], figures: [1, 3])

    /// The whole table without its last line end.
    func text(_ generations: [ConfigHistory.Generation]) -> String { Self.table.text(generations.map(row)) }

    private func row(_ generation: ConfigHistory.Generation) -> [String] {
        [
            generation.current ? "*" : "", "\(generation.revision)",
            Human.ago(milliseconds: now.milliseconds - generation.publishedAt.milliseconds),
            Human.bytes(generation.bytes), generation.upstreamVersion?.printable ?? "",
            generation.causes.map(Provenance.text).joined(separator: "; "),
        ]
    }
}
