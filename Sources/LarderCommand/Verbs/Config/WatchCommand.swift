import ArgumentParser
import LarderClientCore
import LarderEncoding
import LarderProtocol

/// `larder watch [PATH]`
struct WatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watch",
        abstract: "Print the current value, and then each new one.",
        discussion: """
            Prints one line for each snapshot: a string without quotes, anything else as JSON. A string that contains \
            line breaks or other control characters is printed as JSON, too. The line is empty if there is no value at \
            the path. A slow reader gets the newest value, not a backlog. If the agent restarts, watch reconnects and \
            continues, and reports this on standard error.

            EXAMPLES:
              larder watch search.limit
              larder watch search --json         with revision, epoch, state and skipped
              larder watch --count 1             print the first snapshot, then exit
              larder watch search.limit | while read -r limit; do apply "$limit"; done
            """)

    @OptionGroup var path: PathArgument

    @Option(help: ArgumentHelp("Exit after this many snapshots.", valueName: "number"))
    var count: Int?

    @Flag(help: "Let the agent send only the changes. The output is the same; large documents cause less traffic.")
    var patch = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if let count, count < 1 { throw ValidationError("--count must be 1 or more, not \(count)") }
    }

    func run() async throws {
        _ = try path.path
        Output.endWhenReaderCloses()
        try await agent.connection.withClient { client in
            let notes = InterruptionNotes()
            let snapshots = client.config[namespace.namespace].snapshots(
                at: path.text, mode: patch ? .patch : .snapshot
            ).failOnRefusal().onInterruption { notes.interrupted($0) }
            var left = count ?? .max
            var isFirst = true
            for try await snapshot in snapshots {
                notes.resumed()
                try Output.line(agent.json ? Self.json(snapshot).compactText : ValueFormat.line(snapshot.value))
                if isFirst, snapshot.value == nil {
                    let place = PathAdvice.Place(path: path.text, namespace: namespace.namespace)
                    if let advice = await place.advice(over: client) { Output.note(advice) }
                }
                isFirst = false
                left -= 1
                if left == 0 { break }
            }
        }
    }

    /// A snapshot as JSON, with the members of a `config.event` notification.
    static func json(_ snapshot: LarderSnapshot) -> JSONValue {
        .object([
            ("namespace", .string(snapshot.namespace)), ("epoch", .string(snapshot.epoch)),
            ("revision", .int(snapshot.revision)), ("state", .string(snapshot.state.rawValue)),
            ("skipped", .int(snapshot.skipped)), snapshot.value.map { ("value", $0) } ?? ("exists", false),
        ])
    }
}

/// `larder wait CONDITION`
struct WaitCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Wait until the configuration meets a condition.",
        discussion: """
            CONDITION is PATH=VALUE, PATH!=VALUE, PATH (a value exists) or !PATH (no value exists). VALUE is parsed as \
            JSON; if it is not JSON, it is used as a string. With --string it is always a string. A path that contains \
            < or > is written as a JSON Pointer, such as /a>b. Returns at once if the condition already holds. Prints the value. Exits with status 6 if --timeout expires, \
            which is 30 seconds unless given. Until then, it also waits for an agent that is not running; if there is \
            none at that time, the exit status is 5.

            EXAMPLES:
              larder wait search.enabled=true --timeout 30s
              larder wait 'log.level!=debug' --timeout 1h
              larder wait db.url && ./server
              larder wait --revision 41          until revision 41 or a newer one is published
            """)

    @Argument(
        help: ArgumentHelp("PATH=VALUE, PATH!=VALUE, PATH or !PATH.", valueName: "condition"),
        completion: .configurationPath)
    var condition: String?

    @Option(help: ArgumentHelp("Wait for this revision or a newer one.", valueName: "number"), completion: .revision)
    var revision: Int?

    @Flag(help: "Use VALUE as a string even if it is JSON.")
    var string = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var format: FormatOptions
    @OptionGroup var agent: AgentOptions

    func validate() throws {
        if (condition == nil) == (revision == nil) {
            throw ValidationError("pass either a condition such as search.enabled=true, or --revision")
        }
    }

    func run() async throws {
        let (path, condition) = try parsed()
        let clock = ContinuousClock()
        let end = clock.now + agent.connection.timeout.duration
        var delay = Self.firstDelay
        while true {
            let left = max(.milliseconds(1), clock.now.duration(to: end))
            let parameters = ConfigWait.Parameters(
                condition, path: path, namespace: namespace.namespace, timeoutMilliseconds: left.milliseconds)
            do {
                // The agent enforces the timeout. The client waits ten seconds longer, for an agent that does not
                // respond at all.
                return try await agent.printResult(of: ConfigWait.self, parameters, timeout: left + .seconds(10)) {
                    $0.value.map { format.format.text($0, isTerminal: Output.isTerminal) }
                }
            } catch let failure as Failure where failure.status == .unreachable {
                let left = clock.now.duration(to: end)
                guard left > .zero else { throw failure }
                if delay == Self.firstDelay { Output.note("\(failure.message); waiting for the agent") }
                try await clock.sleep(for: min(delay, left))
                delay = min(delay * 2, .seconds(1))
            }
        }
    }

    /// The time from the first failed attempt to reach the agent until the next. It doubles up to a second.
    private static let firstDelay = Duration.milliseconds(100)

    private func parsed() throws(Failure) -> (JSONPath, ConfigWait.Condition) {
        guard let condition else { return (JSONPath([]), .revisionAtLeast(revision ?? 0, epoch: nil)) }
        return try Self.parse(condition, isString: string)
    }

    static func parse(_ text: String, isString: Bool) throws(Failure) -> (JSONPath, ConfigWait.Condition) {
        guard let sign = text.firstIndex(of: "=") else {
            let isAbsent = text.hasPrefix("!")
            let name = isAbsent ? text.dropFirst() : text[...]
            try refuseComparison(in: name)
            return (try PathArgument.parse(String(name)), .exists(!isAbsent))
        }
        let isOther = text[..<sign].hasSuffix("!")
        let name = isOther ? text[..<sign].dropLast() : text[..<sign]
        let rest = text[text.index(after: sign)...]
        // An operator of another language, such as `<=` or `==`, is most likely a mistake. Without this error, the
        // condition would never hold.
        if let last = name.last, "<> ".contains(last) || rest.hasPrefix("=") || rest.hasPrefix(" ") {
            throw invalid(name)
        }
        try refuseComparison(in: name)
        let path = try PathArgument.parse(String(name))
        let value = try ValueArgument.parse(String(rest), isString: isString)
        if value.isNull {
            throw Failure(
                .usage, "a value is never null; write !\(path) to wait until there is no value, or add --string")
        }
        return (path, isOther ? .notEquals(value) : .equals(value))
    }

    /// Refuses `<` and `>` in a path: they are most likely operators. A JSON Pointer may contain them.
    private static func refuseComparison(in name: Substring) throws(Failure) {
        if !name.hasPrefix("/"), let sign = name.firstIndex(where: { "<>".contains($0) }) {
            throw invalid(name[..<sign])
        }
    }

    private static func invalid(_ path: Substring) -> Failure {
        Failure(
            .usage,
            "the condition for \"\(path)\" is invalid; write PATH=VALUE or PATH!=VALUE without spaces around the "
                + "operator; if VALUE itself begins with \"=\" or a space, write it as a JSON string, such as "
                + "'path=\"=x\"'")
    }
}
