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
