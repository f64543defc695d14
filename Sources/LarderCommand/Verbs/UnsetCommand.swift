import ArgumentParser
import LarderClient

/// `larder unset PATH`
struct UnsetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unset",
        abstract: "Remove what was set at a path and below it.",
        discussion: """
            The values of the other layers show again. It is no error if nothing was set there.

            EXAMPLES:
              larder unset search.limit
              larder unset ''                    everything that was ever set
            """)

    @Argument(help: "search.limit, or /search/limit as a JSON Pointer; '' for everything.")
    var path: String

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigUnset.Parameters(path: try PathArgument.parse(path), namespace: namespace.namespace)
        try await agent.printResult(of: ConfigUnset.self, parameters) { $0.summary }
    }
}
