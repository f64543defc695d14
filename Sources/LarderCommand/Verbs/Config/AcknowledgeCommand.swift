import ArgumentParser
import LarderClient

/// `larder acknowledge REVISION`
struct AcknowledgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "acknowledge",
        abstract: "Tell the agent that a snapshot is in use here, or why it is not.",
        discussion: """
            larder status and larder clients show it for as long as this connection lasts, so a program that stays says \
            --stay. larder exec --watch and larder render --watch acknowledge what they do by themselves.

            EXAMPLES:
              larder acknowledge 41 --stay &
              larder acknowledge 41 --refuse 'port 80 is taken' --stay
            """)

    @Argument(help: "The snapshot's revision.")
    var revision: Int

    @Option(help: ArgumentHelp("Say that the snapshot is not used, and why.", valueName: "reason"))
    var refuse: String?

    @Flag(help: "Stay connected until interrupted, and so keep it in the agent's status.")
    var stay = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigAcknowledge.Parameters(
            revision: revision, accepted: refuse == nil, reason: refuse, namespace: namespace.namespace)
        try await agent.connection.withClient { client in
            try await agent.printResult(of: ConfigAcknowledge.self, parameters, over: client) { result in
                "\(refuse == nil ? "accepted" : "refused") revision \(result.revision)"
            }
            if stay {
                try? await Task.sleep(for: .seconds(Int64.max / 2))
            } else {
                Output.note("the agent forgets that now, as the connection ends; --stay keeps it")
            }
        }
    }
}
