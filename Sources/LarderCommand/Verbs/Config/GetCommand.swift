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
              larder get search --max-age 5s     no older than that; the source is asked if need be
              limit=$(larder get search.limit) || limit=10
            """)

    @OptionGroup var path: PathArgument

    @Option(
        help: ArgumentHelp(
            "Take no value that the remote source confirmed longer ago; ask it now if need be.", valueName: "time"),
        transform: TimeSpan.parse)
    var maxAge: TimeSpan?

    @Option(
        help: ArgumentHelp(
            "With --max-age: if the source gives no usable answer, take a value of up to this age.", valueName: "time"),
        transform: TimeSpan.parse)
    var staleIfError: TimeSpan?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var format: FormatOptions
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if staleIfError != nil, maxAge == nil {
            throw ValidationError("--stale-if-error says what happens when --max-age cannot be kept; add --max-age")
        }
    }

    func run() async throws {
        let parameters = ConfigGet.Parameters(
            path: try path.path, namespace: namespace.namespace, maximumAgeSeconds: maxAge?.seconds,
            staleIfErrorSeconds: staleIfError?.seconds)
        try await agent.printResult(of: ConfigGet.self, parameters) { result in
            format.format.text(result.value, isTerminal: Output.isTerminal)
        }
    }
}
