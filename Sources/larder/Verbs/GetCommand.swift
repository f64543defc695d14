import ArgumentParser
import LarderClient

/// `larder get [PATH]`
struct GetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print a value.",
        discussion: """
            Strings, numbers and true/false are printed bare, objects and arrays as JSON over several lines (in one with \
            --raw). Nothing at the path: exit status 3.

            EXAMPLES:
              larder get                         the whole configuration
              larder get search.limit            25
              larder get /hosts/a.example.org    a name with dots, as a JSON Pointer
              larder get search --json           with revision, epoch and state
              limit=$(larder get search.limit) || limit=10
            """)

    @OptionGroup var path: PathArgument
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var format: FormatOptions
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigGet.Parameters(path: try path.path, namespace: namespace.namespace)
        try await agent.printResult(of: ConfigGet.self, parameters) { result in
            format.format.text(result.value, isTerminal: Output.isTerminal)
        }
    }
}
