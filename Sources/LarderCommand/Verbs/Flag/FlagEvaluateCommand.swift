import ArgumentParser
import Glibc
import LarderClientCore
import LarderFlagRules
import LarderJSON
import LarderProtocol

/// `larder flag list`
struct FlagListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List the flags of a namespace.",
        discussion: """
            EXAMPLES:
              larder flag list
              larder flag list --namespace web --json
            """)

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = FlagList.Parameters(namespace: namespace.namespace)
        try await agent.printResult(of: FlagList.self, parameters) { list in
            if let problem = list.problem { Output.note(problem) }
            if list.flags.isEmpty { return "no flags" }
            let rows = list.flags.map { flag -> [String] in
                if flag.isMasked { return [flag.flag.printable, "secret", "", "", ""] }
                let state = flag.isEnabled == true ? "enabled" : "disabled"
                return [
                    flag.flag, state, flag.defaultVariant ?? "", flag.variants.joined(separator: ","),
                    flag.problem ?? (flag.hasTargeting == true ? "rule" : ""),
                ].map(\.printable)
            }
            return TextTable(headings: ["FLAG", "STATE", "DEFAULT", "VARIANTS", "RULE"]).text(rows)
        }
    }
}

/// The options for the context of an evaluation.
struct ContextOptions: ParsableArguments {
    @Option(help: ArgumentHelp("The context, as a JSON object.", valueName: "object"))
    var context: String?

    @Option(
        help: ArgumentHelp("Read the context from this file; - is standard input.", valueName: "file"),
        completion: .file())
    var contextFile: String?

    func validate() throws {
        if context != nil, contextFile != nil {
            throw ValidationError("--context-file replaces --context; leave out one of them")
        }
    }

    /// The context; nil for none.
    var object: JSONValue? {
        get throws {
            guard let text = try contextFile.map(ValueArgument.text(inFile:)) ?? context else { return nil }
            guard let object = try? JSONValue(parsing: text), object.kind == .object else {
                throw Failure(
                    .usage, "the context is not a JSON object; write one such as '{\"targetingKey\": \"user-17\"}'")
            }
            return object
        }
    }
}

/// `larder flag evaluate NAME`
struct FlagEvaluateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evaluate",
        abstract: "Print the value of a flag for a context.",
        discussion: """
            Strings are printed without quotes. The exit status is 3 if there is no such flag, or if it has no value \
            because it is disabled, and 1 if its evaluation fails. With --default, that value is printed instead.

            EXAMPLES:
              larder flag evaluate checkout --context '{"targetingKey": "user-17", "email": "ann@example.org"}'
              larder flag evaluate color --default blue
              larder flag evaluate color --json         with variant, reason and metadata
            """)

    @OptionGroup var flag: FlagArgument
    @OptionGroup var context: ContextOptions

    @Option(
        name: .customLong("default"),
        help: ArgumentHelp("The value if the flag has none, as JSON or a string.", valueName: "value"))
    var fallback: String?

    @OptionGroup var format: FormatOptions

    func run() async throws {
        let fallback = try fallback.map { try ValueArgument.parse($0, isString: false, hasStringOption: false) }
        let parameters = FlagEvaluate.Parameters(
            flag: flag.name, context: try context.object, namespace: flag.namespace.namespace, defaultValue: fallback)
        try await flag.agent.connection.withClient { client in
            var isUnknown = false
            try await flag.agent.printResult(of: FlagEvaluate.self, parameters, over: client) { result in
                if let value = result.value { return format.format.text(value, isTerminal: Output.isTerminal) }
                isUnknown = result.errorCode == FlagErrorCode.flagNotFound.rawValue
                if isUnknown { return nil }
                throw Failure(
                    result.errorCode == nil ? .notFound : .failure,
                    "flag \"\(flag.name)\" has no value: \(result.errorMessage ?? result.reason); add --default, or find "
                        + "the cause with larder flag explain")
            }
            if isUnknown {
                // This fails with the name of a similar flag.
                _ = try await flag.found(over: client)
                throw Failure(.notFound, "flag \"\(flag.name)\" did not exist; evaluate it again")
            }
        }
    }
}

/// The flags of a namespace, compiled in this process.
private struct LocalFlags {
    let set: FlagSet
    let name: String
    let path: JSONPath
    let member: String

    init(_ flag: FlagArgument, over client: LarderClient) async throws {
        name = flag.name
        (_, path, member) = try await flag.found(over: client)
        let parameters = ConfigGet.Parameters(path: JSONPath([]), namespace: flag.namespace.namespace)
        set = FlagSet(in: try await client.call(ConfigGet.self, parameters).value, member: member)
    }
}

/// `larder flag explain NAME`
struct FlagExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show how a flag is evaluated for a context.",
        discussion: """
            Prints the outcome and the rule as a tree, with the value of each part. A part that was not evaluated begins \
            with a dash: it is not on the branch that was taken. If the rule is malformed, prints the layers that define it, \
            because merging layers may put two operators into one rule. The command evaluates the flag itself, so it needs \
            no right other than read.

            EXAMPLES:
              larder flag explain checkout --context '{"targetingKey": "user-17"}'
            """)

    @OptionGroup var flag: FlagArgument
    @OptionGroup var context: ContextOptions

    func run() async throws {
        let facts = FlagContext(try context.object ?? .emptyObject)
        try await flag.agent.connection.withClient { client in
            let flags = try await LocalFlags(flag, over: client)
            let trace = flags.set.explain(flags.name, context: facts, now: Int64(time(nil)))
            var layers: [String] = []
            var place: JSONPath?
            if trace.outcome.errorCode == .parseError, let problem = flags.set[flags.name]?.problem {
                place = FlagSet.path(problem.path, member: flags.member)
                let parameters = ConfigExplain.Parameters(
                    path: place ?? flags.path, namespace: flag.namespace.namespace)
                let explanation = try await client.call(ConfigExplain.self, parameters)
                layers = explanation.layers.filter { $0.value != nil || $0.isHiding }.map(\.name)
            }
            try Output.line(flag.agent.json ? json(trace, layers) : text(trace, place, layers))
        }
    }

    private func text(_ trace: FlagTrace, _ place: JSONPath?, _ layers: [String]) -> String {
        let outcome = trace.outcome
        var lines = [flag.name.printable + ": "]
        lines[0] += outcome.variant.map { "\($0.printable) = " } ?? ""
        lines[0] += outcome.value?.compactText.printable ?? "no value"
        lines[0] += " (\(outcome.errorCode?.rawValue ?? outcome.reason.rawValue))"
        if let message = outcome.errorMessage { lines.append(message.printable) }
        if let place {
            lines.append("at \(place.description.printable), defined by the layers \(layers.joined(separator: ", "))")
        }
        if let rule = trace.rule { append(rule, indentation: "  ", to: &lines) }
        return lines.joined(separator: "\n")
    }

    private func append(_ part: FlagTrace.Part, indentation: String, to lines: inout [String]) {
        let value = part.value?.compactText.printable
        let name: String? =
            switch part.kind {
            case .constant: nil
            case .array: "[ ]"
            case .call(let name): name
            case .reference(let name): "$ref \(name)"
            }
        let head = part.isEvaluated ? "" : "- "
        let text = [name, value].compactMap(\.self).joined(separator: " → ")
        lines.append(indentation + head + text.printable)
        for operand in part.operands { append(operand, indentation: indentation + "  ", to: &lines) }
    }

    private func json(_ trace: FlagTrace, _ layers: [String]) -> String {
        let outcome = trace.outcome
        return JSONValue.building { writer in
            writer.beginObject()
            writer.member("flag", flag.name)
            writer.member("value", outcome.value)
            writer.member("variant", outcome.variant)
            writer.member("reason", outcome.reason.rawValue)
            writer.member("errorCode", outcome.errorCode?.rawValue)
            writer.member("errorMessage", outcome.errorMessage)
            if !layers.isEmpty { writer.member("layers", JSONValue.array(layers.map(JSONValue.string))) }
            if let rule = trace.rule {
                writer.name("rule")
                write(rule, to: &writer)
            }
            writer.endObject()
        }.compactText
    }

    private func write(_ part: FlagTrace.Part, to writer: inout JSONWriter) {
        writer.beginObject()
        switch part.kind {
        case .constant: writer.member("kind", "constant")
        case .array: writer.member("kind", "array")
        case .call(let name): writer.member("operator", name)
        case .reference(let name): writer.member("$ref", name)
        }
        writer.member("evaluated", part.isEvaluated)
        writer.member("value", part.value)
        if !part.operands.isEmpty {
            writer.name("operands")
            writer.beginArray()
            for operand in part.operands { write(operand, to: &writer) }
            writer.endArray()
        }
        writer.endObject()
    }
}

/// `larder flag simulate NAME`
struct FlagSimulateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Show which share of users gets each variant.",
        discussion: """
            Evaluates the flag in this process for many contexts. They differ only in targetingKey, which is key-1, key-2 \
            and so on; --context adds other members.

            EXAMPLES:
              larder flag simulate checkout --keys 100000
              larder flag simulate checkout --context '{"country": "de"}'
            """)

    @OptionGroup var flag: FlagArgument
    @OptionGroup var context: ContextOptions

    @Option(help: ArgumentHelp("The number of keys, 1 to 10000000.", valueName: "number"))
    var keys = 100_000

    func validate() throws {
        if !(1...10_000_000 ~= keys) { throw ValidationError("--keys is \(keys); it must be from 1 to 10000000") }
    }

    func run() async throws {
        let given = try context.object ?? .emptyObject
        try await flag.agent.connection.withClient { client in
            let flags = try await LocalFlags(flag, over: client)
            let now = Int64(time(nil))
            var counts: [ExactText: Int] = [:]
            for key in 1...keys {
                let facts = FlagContext(MergePatch.apply(["targetingKey": .string("key-\(key)")], to: given))
                let outcome = flags.set.evaluate(flags.name, context: facts, now: now)
                let name = outcome.variant ?? "(\(outcome.errorCode?.rawValue ?? outcome.reason.rawValue))"
                counts[ExactText(name), default: 0] += 1
            }
            let sorted = counts.sorted { ($0.value, $1.key.text) > ($1.value, $0.key.text) }
            if flag.agent.json {
                let variants = JSONValue.building { writer in
                    writer.beginObject()
                    for (name, count) in sorted {
                        writer.name(name.text)
                        writer.int(count)
                    }
                    writer.endObject()
                }
                return try Output.line((["keys": .int(keys), "variants": variants] as JSONValue).compactText)
            }
            let rows = sorted.map { [$0.key.text.printable, "\($0.value)", percentage($0.value)] }
            try Output.line(TextTable(headings: ["VARIANT", "KEYS", "SHARE"], figures: [1, 2]).text(rows))
        }
    }

    /// The share of the keys in percent, with two digits after the point.
    private func percentage(_ count: Int) -> String {
        let hundredths = (count * 20_000 / keys + 1) / 2
        let rest = hundredths % 100
        return "\(hundredths / 100).\(rest < 10 ? "0" : "")\(rest) %"
    }
}
