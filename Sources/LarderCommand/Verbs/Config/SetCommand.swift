import ArgumentParser
import LarderClientCore
import LarderEncoding
import LarderJSON
import LarderProtocol
import LarderSchema

/// `larder set PATH VALUE`
struct SetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Set an override: a value above all other layers.",
        discussion: """
            VALUE is parsed as JSON; if it is not JSON, it is used as a string. With --string it is always a string. \
            An object is merged with the values of the lower layers, and null hides those values. The override lasts \
            until larder unset or, with --ttl, until that time has passed. If the path is set again without --ttl, the \
            override no longer expires. Write -- before a word such as -x; a negative number needs none.

            With --value-from, VALUE is read from a file or, for -, from standard input, so that it does not appear in \
            the list of processes. One line end at the end of the text is not part of the value.

            The conditions --if-revision, --if-value and --if-absent are checked in the same step as the change, so \
            that no other change can come between. If one of them does not hold, the exit status is 13.

            EXAMPLES:
              larder set search.limit 25
              larder set search.name primary
              larder set search '{"limit": 25, "hosts": ["a", "b"]}'
              larder set search.version --string 1.10
              larder set log.level debug --ttl 10m
              larder set search.offset -5
              larder set shell.options -- -eu
              larder set tls.key --value-from /etc/ssl/private/app.pem
              pass show api | larder set api.token --string --value-from -
              larder set search.limit 30 --if-value 25 --reason "more results per page"
              larder set jobs.owner host-7 --if-absent
              larder set search.limit 30 --dry-run
            """)

    @Argument(
        help: "A path such as search.limit, or a JSON Pointer such as /search/limit.", completion: .configurationPath)
    var path: String

    @Argument(help: "JSON, or a string.", completion: .configurationValue)
    var value: String?

    @Option(
        help: ArgumentHelp("Read VALUE from this file; - is standard input.", valueName: "file"), completion: .file())
    var valueFrom: String?

    @Option(
        help: ArgumentHelp("Remove the override after this time, such as 90s, 10m, 1h30m or 7d.", valueName: "time"),
        transform: TimeSpan.parse)
    var ttl: TimeSpan?

    @Flag(help: "Use VALUE as a string even if it is JSON.")
    var string = false

    @OptionGroup var condition: ValueConditionOptions
    @OptionGroup var change: ChangeOptions
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        try PathArgument.rejectEmpty(path, "larder replace VALUE replaces all overrides")
        if value == nil, valueFrom == nil, path.contains("=") {
            throw ValidationError("PATH and VALUE are two words; write larder set PATH VALUE")
        }
        try ValueArgument.validate(value, orFile: valueFrom)
    }

    func run() async throws {
        let text = try valueFrom.map(ValueArgument.text(inFile:)) ?? value ?? ""
        let parameters = ConfigSet.Parameters(
            path: try PathArgument.parse(path), value: try ValueArgument.parse(text, isString: string),
            namespace: namespace.namespace, ttlMilliseconds: ttl?.milliseconds, ifRevision: change.condition,
            ifValue: try condition.condition(isString: string), reason: change.reason, isDryRun: change.dryRun)
        try await agent.printResult(of: ConfigSet.self, parameters, ChangeReport.text)
    }
}

/// `larder replace VALUE`
struct ReplaceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replace",
        abstract: "Replace all overrides with the members of an object.",
        discussion: """
            The overrides that VALUE does not contain are removed. With --ttl, the new ones are removed after that time. \
            With --value-from, VALUE is read from a file or, for -, from standard input.

            EXAMPLES:
              larder replace '{"search": {"limit": 25}}'
              larder replace --value-from overrides.json --dry-run
            """)

    @Argument(help: "A JSON object.")
    var value: String?

    @Option(
        help: ArgumentHelp("Read VALUE from this file; - is standard input.", valueName: "file"), completion: .file())
    var valueFrom: String?

    @Option(
        help: ArgumentHelp("Remove the overrides after this time, such as 90s, 10m, 1h30m or 7d.", valueName: "time"),
        transform: TimeSpan.parse)
    var ttl: TimeSpan?

    @OptionGroup var change: ChangeOptions
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws { try ValueArgument.validate(value, orFile: valueFrom) }

    func run() async throws {
        let text = try valueFrom.map(ValueArgument.text(inFile:)) ?? value ?? ""
        let parameters = ConfigSet.Parameters(
            path: JSONPath([]), value: try ValueArgument.parse(text, isString: false, hasStringOption: false),
            namespace: namespace.namespace, ttlMilliseconds: ttl?.milliseconds, replaceAll: true,
            ifRevision: change.condition, reason: change.reason, isDryRun: change.dryRun)
        try await agent.printResult(of: ConfigSet.self, parameters, ChangeReport.text)
    }
}

extension CompletionKind {
    /// Completes the value of `larder set` with the values that the schema permits.
    fileprivate static var configurationValue: CompletionKind {
        .custom { words, index, prefix in await AgentCompletion.values(CompletionLine(words, index, prefix)) }
    }
}

extension AgentCompletion {
    fileprivate static func values(_ line: CompletionLine) async -> [String] {
        guard let command = await line.setCommand, let path = try? JSONPath(parsing: command.path) else { return [] }
        let namespace = command.namespace.namespace
        let schema = await request(command.agent.connection.socket) { client in
            await schemaInForce(namespace, client)
        }
        let permitted = schema??.annotations(at: path)?.values ?? []
        return candidates(permitted, typed: line.typed, isString: command.string)
    }
}

extension CompletionLine {
    /// The line as `larder set`, with any value; nil if it is another command or invalid.
    var setCommand: SetCommand? {
        get async {
            let arguments = Arguments.normalized(words + ["0"])
            guard arguments.first == "set" else { return nil }
            return try? await SetCommand.asyncParse(Array(arguments.dropFirst()))
        }
    }
}

/// `larder unset PATH`
struct UnsetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unset",
        abstract: "Remove the overrides at and below a path.",
        discussion: """
            The values of the other layers take effect again. An override above PATH stays, also if it sets a value at \
            PATH: after larder set log '{"level": "debug"}', larder unset log.level removes nothing. Unset the path of \
            that override, or set the member. Without an override the command succeeds, with a note on standard \
            error. larder explain --overrides lists the overrides.

            EXAMPLES:
              larder unset search.limit
              larder unset jobs.owner --if-value host-7
              larder unset --all                 remove all overrides
              larder unset --all --dry-run       show what would change
            """)

    @Argument(
        help: "A path such as search.limit, or a JSON Pointer such as /search/limit. Omit it with --all.",
        completion: .configurationPath)
    var path: String?

    @Flag(help: "Remove all overrides.")
    var all = false

    @OptionGroup var condition: ValueConditionOptions
    @OptionGroup var change: ChangeOptions
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if all {
            if path != nil { throw ValidationError("--all takes no path; write larder unset --all") }
        } else {
            guard let path else {
                throw ValidationError("Missing expected argument '<path>'; larder unset --all removes all overrides")
            }
            try PathArgument.rejectEmpty(path, "larder unset --all removes all overrides")
        }
    }

    func run() async throws {
        let parameters = ConfigUnset.Parameters(
            path: try path.map(PathArgument.parse) ?? JSONPath([]), namespace: namespace.namespace, all: all,
            ifRevision: change.condition, ifValue: try condition.condition(isString: false), reason: change.reason,
            isDryRun: change.dryRun)
        try await agent.connection.withClient { client in
            // The result of the change does not tell, because an override can have the value of a lower layer.
            let advice = await Self.advice(
                on: parameters.path, in: namespace.namespace, over: client, agent.connection.hints)
            try await agent.printResult(of: ConfigUnset.self, parameters, over: client, ChangeReport.text)
            if let advice { Output.note(advice) }
        }
    }

    /// The note that there are no overrides at and below a path, with a suggestion; nil if there are, or if the agent does
    /// not list them for this user.
    private static func advice(
        on path: JSONPath, in namespace: String, over client: LarderClient, _ hints: Hints
    ) async -> String? {
        func first(_ limit: Int, at path: JSONPath) async -> [ConfigOverrides.Entry]? {
            let parameters = ConfigOverrides.Parameters(path: path, namespace: namespace, limit: limit)
            return try? await client.call(ConfigOverrides.self, parameters).overrides
        }
        guard let found = await first(1, at: path), found.isEmpty else { return nil }
        let others = await first(ConfigOverrides.Parameters.longestPage, at: JSONPath([])) ?? []
        return OverrideAdvice.text(for: path, among: others.map(\.path), in: namespace, hints)
    }
}

/// What to say about a path without overrides.
enum OverrideAdvice {
    /// - Parameter paths: the paths with overrides
    static func text(
        for path: JSONPath, among paths: [String], in namespace: String, _ hints: Hints
    ) -> String {
        let text = path.isRoot ? "there are no overrides" : "there is no override at \"\(path)\" or below it"
        let above = paths.last { other in
            guard let names = try? JSONPath(parsing: other).segments, names.count < path.segments.count else {
                return false
            }
            return zip(names, path.segments).allSatisfy { $0.isSpelled(as: $1) }
        }
        if let above {
            let place = above.isEmpty ? "the whole document" : "\"\(above)\""
            let removal = hints.command(
                "larder unset \(above.isEmpty ? "--all" : above.shellWord)", namespace: namespace)
            let replacement = hints.command("larder set \(path.description.shellWord) VALUE", namespace: namespace)
            return
                "\(text); the override at \(place) may contain it: \(removal) removes that one as a whole, and "
                + "\(replacement) replaces the member"
        }
        let similar = NearestName.suggestion(for: path.description, among: paths)
        return "\(text) in namespace \"\(namespace)\"" + (similar.map { "; did you mean \($0.shellWord)?" } ?? "")
    }
}

/// `larder increment PATH`
struct IncrementCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "increment",
        abstract: "Add to a number, in one step, and print the sum.",
        discussion: """
            The value must be an integer; if there is none, it counts as 0. The sum becomes an override. No other \
            change can come between reading and writing, so several processes can count or take numbers without \
            retrying. If the sum would be less than --minimum or greater than --maximum, nothing is changed and the \
            exit status is 13.

            EXAMPLES:
              larder increment jobs.started
              larder increment tickets.left --by -1 --minimum 0
            """)

    @Argument(
        help: "A path such as tickets.left, or a JSON Pointer such as /tickets/left.", completion: .configurationPath)
    var path: String

    @Option(help: ArgumentHelp("The integer to add.", valueName: "number"))
    var by = 1

    @Option(help: ArgumentHelp("The smallest sum that is allowed.", valueName: "number"))
    var minimum: Int?

    @Option(help: ArgumentHelp("The largest sum that is allowed.", valueName: "number"))
    var maximum: Int?

    @Option(
        help: ArgumentHelp("Why, for larder history and the log; at most 1,024 characters.", valueName: "text"))
    var reason: String?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        try PathArgument.rejectEmpty(path, "name the path of a number")
    }

    func run() async throws {
        let parameters = ConfigIncrement.Parameters(
            path: try PathArgument.parse(path), by: by, namespace: namespace.namespace, minimum: minimum,
            maximum: maximum, reason: reason)
        try await agent.printResult(of: ConfigIncrement.self, parameters) { "\($0.value)" }
    }
}
