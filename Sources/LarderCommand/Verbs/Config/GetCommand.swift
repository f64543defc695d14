import ArgumentParser
import LarderClientCore
import LarderProtocol

/// `larder get [PATH]`
struct GetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "get",
        abstract: "Print a value.",
        discussion: """
            Strings are printed without quotes, and objects and arrays as JSON on several lines, or on one line with \
            --raw. The exit status is 3 if there is no value at the path.

            EXAMPLES:
              larder get                         the whole configuration
              larder get search.limit            prints 25
              larder get /hosts/a.example.org    a name that contains dots, as a JSON Pointer
              larder get search --json           with revision, epoch and state
              larder get search --max-age 5s     polls the source first if it confirmed the value more than 5 s ago
              limit=$(larder get search.limit) || limit=10
            """)

    @OptionGroup var path: PathArgument

    @Option(
        help: ArgumentHelp(
            "Poll the remote source first if it last confirmed the value longer ago than this.", valueName: "time"),
        transform: TimeSpan.parse)
    var maxAge: TimeSpan?

    @Option(
        help: ArgumentHelp(
            "With --max-age: if that poll fails, accept a value that was confirmed within this time.", valueName: "time"
        ),
        transform: TimeSpan.parse)
    var staleIfError: TimeSpan?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var format: FormatOptions
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if staleIfError != nil, maxAge == nil {
            throw ValidationError("--stale-if-error requires --max-age; add it")
        }
    }

    func run() async throws {
        let parameters = ConfigGet.Parameters(
            path: try path.path, namespace: namespace.namespace, maximumAgeSeconds: maxAge?.seconds,
            staleIfErrorSeconds: staleIfError?.seconds)
        let place = PathAdvice.Place(path: path.text, namespace: namespace.namespace)
        try await agent.connection.withClient(reading: place) { client in
            try await agent.printResult(of: ConfigGet.self, parameters, over: client) { result in
                format.format.text(result.value, isTerminal: Output.isTerminal)
            }
        }
    }
}
