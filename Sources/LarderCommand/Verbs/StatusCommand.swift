import ArgumentParser
import LarderClient

/// `larder status`
struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show how fresh each namespace is, and why.",
        discussion: """
            The state is one of: initializing (the remote source has not answered yet), fresh, refreshing, stale (the last \
            attempt failed, the last good snapshot is served), failed (the last attempt failed, and there never was a usable \
            answer, or what is held is older than staleIfErrorSeconds in the settings; it is served all the same).

            EXAMPLES:
              larder status
              larder status -n billing
              larder status --json | jq -r '.namespaces[] | select(.state != "fresh") | .namespace'
            """)

    @Option(name: .shortAndLong, help: ArgumentHelp("Show this namespace only.", valueName: "name"))
    var namespace: String?

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: ConfigStatus.self, ConfigStatus.Parameters(namespace: namespace)) { result in
            StatusReport(style: .standardOutput, now: .now).text(result.namespaces)
        }
    }
}
