import ArgumentParser
import LarderClient

/// `larder explain [PATH]`
struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show which layer a value comes from, and what the others say.",
        discussion: """
            A row for each layer, the highest first: what it says at the path, in which file and line, from which source \
            or process, and since when. The winner has an asterisk; for an object whose members come from several layers \
            it is the highest that says anything there. Layers that a rollback holds are marked. Values that the settings \
            call secret show as <masked>.

            EXAMPLES:
              larder explain search.limit
              larder explain                     the whole document
              larder explain search.limit --json | jq -r .winner
            """)

    @OptionGroup var path: PathArgument
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigExplain.Parameters(path: try path.path, namespace: namespace.namespace)
        try await agent.printResult(of: ConfigExplain.self, parameters) { result in
            ExplainReport(style: .standardOutput, now: .now).text(result)
        }
    }
}
