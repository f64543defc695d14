import ArgumentParser
import LarderClientCore
import LarderProtocol

/// `larder acknowledge REVISION`
struct AcknowledgeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "acknowledge",
        abstract: "Report to the agent that a snapshot is in use, or why it is not.",
        discussion: """
            larder status --long and larder clients show the report while the connection lasts. To keep the connection open, \
            use --keep-connected. larder exec --watch and larder render --watch report the snapshots that they use \
            automatically.

            EXAMPLES:
              larder acknowledge 41 --keep-connected &
              larder acknowledge 41 --reject 'port 80 is taken' --keep-connected
            """)

    @Argument(help: "The revision of the snapshot.", completion: .revision)
    var revision: Int

    @Option(help: ArgumentHelp("Report that the snapshot is not used, for this reason.", valueName: "reason"))
    var reject: String?

    @Flag(help: "Stay connected until interrupted, so that the report stays in the agent's status.")
    var keepConnected = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigAcknowledge.Parameters(
            revision: revision, accepted: reject == nil, reason: reject, namespace: namespace.namespace)
        try await agent.connection.withClient { client in
            try await agent.printResult(of: ConfigAcknowledge.self, parameters, over: client) { result in
                "\(reject == nil ? "accepted" : "rejected") revision \(result.revision)"
            }
            if keepConnected {
                try? await Task.sleep(for: .seconds(Int64.max / 2))
            } else {
                Output.note("the connection ends now, so the agent drops the report; add --keep-connected to keep it")
            }
        }
    }
}
