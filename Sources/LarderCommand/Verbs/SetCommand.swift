import ArgumentParser
import LarderClient

/// `larder set PATH VALUE`
struct SetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Put a value above every other layer.",
        discussion: """
            VALUE is read as JSON if it is JSON, and taken as a string otherwise; --string takes it as a string in any \
            case. An object is merged with what the other layers hold; null hides what they hold. The value stays until \
            `larder unset`, or until its time is over with --ttl. A string that begins with a dash goes after --.

            EXAMPLES:
              larder set search.limit 25
              larder set search.name primary
              larder set search '{"limit": 25, "hosts": ["a", "b"]}'
              larder set search.version --string 1.10
              larder set log.level debug --ttl 10m
              larder set search.offset -5
              larder set shell.options -- -eu
            """)

    @Argument(help: "search.limit, or /search/limit as a JSON Pointer.")
    var path: String

    @Argument(help: "JSON, or a plain string.")
    var value: String

    @Option(help: ArgumentHelp("Remove the value again after this time: 90s, 10m, 1h30m, 7d.", valueName: "time"))
    var ttl: TimeSpan?

    @Flag(help: "Take VALUE as a string even if it is JSON.")
    var string = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigSet.Parameters(
            path: try PathArgument.parse(path), value: try ValueArgument.parse(value, isString: string),
            namespace: namespace.namespace, ttlMilliseconds: ttl?.milliseconds)
        try await agent.printResult(of: ConfigSet.self, parameters) { $0.summary }
    }
}

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
