import ArgumentParser
import LarderClientCore

/// `larder history`
struct HistoryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: "List the retained snapshots and why each was published, or pin one.",
        discussion: """
            By default the agent retains the newest 16 snapshots, the last one of each hour for a day, and the last \
            one of each day for 30 days, within the limits of namespaces.NAME.history in the settings. A pinned \
            snapshot is retained until it is unpinned. In the first column, * marks the current snapshot and + a \
            pinned one.

            EXAMPLES:
              larder history
              larder history --pin 40
              larder history --limit 3 -n billing
              larder history --json | jq '.generations[] | {revision, causes}'
            """)

    @Option(help: ArgumentHelp("List at most this many snapshots.", valueName: "number"))
    var limit: Int?

    @Option(
        help: ArgumentHelp("Pin this snapshot: retain it until it is unpinned.", valueName: "revision"),
        completion: .revision)
    var pin: Int?

    @Option(
        help: ArgumentHelp("Unpin this snapshot: the limits apply to it again.", valueName: "revision"),
        completion: .revision)
    var unpin: Int?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        let possible = 1...ConfigHistory.Parameters.maxLimit
        if let limit, !possible.contains(limit) {
            throw ValidationError("--limit must be from 1 to \(possible.upperBound), not \(limit)")
        }
        if [limit, pin, unpin].compactMap(\.self).count > 1 {
            throw ValidationError("--limit, --pin and --unpin exclude each other; use one of them")
        }
    }

    func run() async throws {
        if let revision = pin ?? unpin {
            let parameters = ConfigPin.Parameters(
                revision: revision, pinned: pin != nil, namespace: namespace.namespace)
            let state = pin != nil ? ("now pinned", "pinned") : ("no longer pinned", "not pinned")
            return try await agent.printResult(of: ConfigPin.self, parameters) { result in
                "revision \(result.revision) is \(result.changed ? state.0 : state.1)"
            }
        }
        let parameters = ConfigHistory.Parameters(namespace: namespace.namespace, limit: limit)
        try await agent.printResult(of: ConfigHistory.self, parameters) { result in
            HistoryReport(now: .now).text(result.generations)
        }
    }
}

/// The output of `larder history` for people: one line per snapshot, newest first, with the current one marked.
struct HistoryReport {
    /// The time that ages are relative to.
    let now: Timestamp

    private static let table = TextTable(
        headings: ["", "REVISION", "PUBLISHED", "SIZE", "VERSION", "BECAUSE OF"], figures: [1, 3])

    /// The table without a final line end.
    func text(_ generations: [ConfigHistory.Generation]) -> String { Self.table.text(generations.map(row)) }

    private func row(_ generation: ConfigHistory.Generation) -> [String] {
        [
            (generation.current ? "*" : "") + (generation.isPinned ? "+" : ""), "\(generation.revision)",
            Human.ago(milliseconds: now.milliseconds - generation.publishedAt.milliseconds),
            Human.bytes(generation.bytes), generation.upstreamVersion?.printable ?? "",
            generation.causes.map(Provenance.text).joined(separator: "; "),
        ]
    }
}
