import ArgumentParser
import LarderClient

/// `larder ping`
struct PingCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ping",
        abstract: "Ask the agent whether it is there.",
        discussion: """
            EXAMPLES:
              larder ping                        pong
              larder ping --timeout 2s || systemctl restart larder
            """)

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: AgentPing.self, NoParameters()) { _ in "pong" }
    }
}
