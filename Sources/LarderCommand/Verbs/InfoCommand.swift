import ArgumentParser
import LarderClient

/// `larder info`
struct InfoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "info",
        abstract: "Show who the agent is, where its files are, and its limits.",
        discussion: """
            EXAMPLES:
              larder info
              larder info --json | jq -r .stateDirectory
            """)

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: AgentInfo.self, NoParameters()) { InfoReport.text($0) }
    }
}
