import ArgumentParser
import LarderClient

/// `larder clients`
struct ClientsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "clients",
        abstract: "List who is connected, and how they keep up.",
        discussion: """
            PENDING is what waits for a client that does not read.

            EXAMPLES:
              larder clients
              larder clients --json | jq '.clients[] | select(.pendingBytes > 0)'
            """)

    @OptionGroup var agent: AgentOptions

    func run() async throws {
        try await agent.printResult(of: AgentClients.self, NoParameters()) { result in
            ClientsTable(now: .now).text(result.clients)
        }
    }
}
