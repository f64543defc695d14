import ArgumentParser
import LarderJSON
import LarderClient

/// `larder set PATH VALUE`
struct SetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Put a value above every other layer.",
        discussion: """
            VALUE is read as JSON if it is JSON, and taken as a string otherwise; --string takes it as a string in any \
            case. An object is merged with what the other layers hold; null hides what they hold. The value stays until \
            `larder unset`, or until its time is over with --ttl. Without --ttl an override that would have ended stays. \
            A string that begins with a dash goes after --. With --all VALUE is an object that replaces all overrides.

            EXAMPLES:
              larder set search.limit 25
              larder set search.name primary
              larder set search '{"limit": 25, "hosts": ["a", "b"]}'
              larder set search.version --string 1.10
              larder set log.level debug --ttl 10m
              larder set search.offset -5
              larder set shell.options -- -eu
              larder set --all '{"search": {"limit": 25}}'
            """)

    @Argument(help: "search.limit, or /search/limit as a JSON Pointer; left out with --all.")
    var path: String

    @Argument(help: "JSON, or a plain string.")
    var value: String?

    @Option(
        help: ArgumentHelp("Remove the value again after this time: 90s, 10m, 1h30m, 7d.", valueName: "time"),
        transform: TimeSpan.parse)
    var ttl: TimeSpan?

    @Flag(help: "Take VALUE as a string even if it is JSON.")
    var string = false

    @Flag(help: "Replace everything that was set by VALUE, an object.")
    var all = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if all {
            if value != nil { throw ValidationError("--all takes no path; write larder set --all VALUE") }
        } else {
            try PathArgument.refuseEmpty(path, "larder set --all VALUE replaces everything that was set")
            if value == nil { throw ValidationError("Missing expected argument '<value>'") }
        }
    }

    func run() async throws {
        let text = value ?? path
        let parameters = ConfigSet.Parameters(
            path: all ? JSONPath([]) : try PathArgument.parse(path),
            value: try ValueArgument.parse(text, isString: string), namespace: namespace.namespace,
            ttlMilliseconds: ttl?.milliseconds, replaceAll: all)
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
              larder unset --all                 everything that was ever set
            """)

    @Argument(help: "search.limit, or /search/limit as a JSON Pointer; left out with --all.")
    var path: String?

    @Flag(help: "Remove everything that was set.")
    var all = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if all {
            if path != nil { throw ValidationError("--all takes no path; write larder unset --all") }
        } else {
            guard let path else { throw ValidationError("Missing expected argument '<path>'") }
            try PathArgument.refuseEmpty(path, "larder unset --all removes everything that was set")
        }
    }

    func run() async throws {
        let parameters = ConfigUnset.Parameters(
            path: try path.map(PathArgument.parse) ?? JSONPath([]), namespace: namespace.namespace, all: all)
        try await agent.printResult(of: ConfigUnset.self, parameters) { $0.summary }
    }
}
