import ArgumentParser
import LarderClientCore
import LarderJSON
import LarderProtocol

/// `larder explain [PATH]`
struct ExplainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Show which layer a value comes from, and the values of the other layers.",
        discussion: """
            Prints a row for each layer, highest first: its value at the path, the file and line, source or process \
            that the value comes from, and since when. An asterisk marks the layer that determines the value. If the \
            members of an object come from several layers, it marks the highest of them. A layer that shows earlier \
            content because of a rollback has the note "rolled back to revision N". Values that the settings declare \
            secret are shown as <masked>, unless you have the right "secrets".

            With --overrides, lists the values that were set at the path and below it, in the order of their paths: \
            value, time until the override expires, the process that set it and its user, and the reason.

            EXAMPLES:
              larder explain search.limit
              larder explain                     the whole document
              larder explain --overrides         all overrides, who set them and why
              larder explain search.limit --json | jq -r .winner
            """)

    @OptionGroup var path: PathArgument

    @Flag(help: "List the overrides at the path and below it instead.")
    var overrides = false

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        if overrides { return try await listOverrides() }
        let parameters = ConfigExplain.Parameters(path: try path.path, namespace: namespace.namespace)
        try await agent.connection.withClient { client in
            var isMissing = false
            try await agent.printResult(of: ConfigExplain.self, parameters, over: client) { result in
                isMissing =
                    result.value == nil && result.layers.allSatisfy { $0.value == nil && !$0.isHiding && !$0.isMasked }
                return ExplainReport(style: .standardOutput, now: .now).text(result)
            }
            let place = PathAdvice.Place(path: path.text, namespace: namespace.namespace)
            if isMissing, let advice = await place.advice(over: client) { Output.note(advice) }
        }
    }

    private func listOverrides() async throws {
        let path = try path.path
        try await agent.connection.withClient { client in
            let list = try await OverrideList.all(at: path, in: namespace.namespace, over: client)
            try agent.print(list, of: ConfigOverrides.self) { result in
                if result.overrides.isEmpty {
                    Output.note(
                        "there are no overrides \(path.isRoot ? "" : "at or below \"\(path)\" ")in namespace "
                            + "\"\(namespace.namespace)\"")
                    return nil
                }
                let width = Output.isTerminal ? Output.terminalSize().columns : nil
                return OverrideList(now: .now).text(result.overrides, width: width)
            }
        }
    }
}

/// The output of `larder explain --overrides`.
struct OverrideList {
    /// The time that expiries are relative to.
    let now: Timestamp

    private static let table = TextTable(headings: ["PATH", "VALUE", "EXPIRES", "AUTHOR", "REASON"])

    /// The overrides at a path and below it: the result of `config.overrides` with the overrides of all pages.
    static func all(at path: JSONPath, in namespace: String, over client: LarderClient) async throws -> JSONValue {
        var parameters = ConfigOverrides.Parameters(path: path, namespace: namespace)
        parameters.limit = ConfigOverrides.Parameters.longestPage
        var overrides: [JSONValue] = []
        while true {
            let page = try await client.call(
                ConfigOverrides.name, params: JSONValue.building { parameters.write(to: &$0) })
            overrides += page["overrides"]?.elements.map(\.self) ?? []
            parameters.after = page["next"]?.string
            guard parameters.after == nil else { continue }
            return .object(page.members.map { ($0.name, $0.name == "overrides" ? .array(overrides) : $0.value) })
        }
    }

    /// The table without a final line end.
    /// - Parameter width: the width to which the reasons are shortened; nil for whole reasons
    func text(_ overrides: [ConfigOverrides.Entry], width: Int? = nil) -> String {
        Self.table.text(overrides.map(row), width: width)
    }

    private func row(_ override: ConfigOverrides.Entry) -> [String] {
        [
            override.path.isEmpty ? "everything" : override.path.printable, ExplainReport.short(override.value),
            override.expiresAt.map { Human.ahead(milliseconds: $0.milliseconds - now.milliseconds) } ?? "never",
            override.peer.map { Provenance.process($0) } ?? "-", override.reason?.printable ?? "",
        ]
    }
}

/// The output of `larder explain` for people: the value, then a row per layer, highest first, with the winner marked.
struct ExplainReport {
    let style: Style
    /// The time that ages are relative to.
    let now: Timestamp

    /// The number of characters after which a value in the table is truncated.
    private static let valueWidth = 40

    /// The report without a final line end.
    func text(_ result: ConfigExplain.Result) -> String {
        let path = result.path.isEmpty ? "everything" : result.path.printable
        let value = result.value.map { "\(path) = \(Self.short($0))" } ?? "\(path) has no value"
        var lines = ["\(style.strong(value))  (\(result.namespace.printable), revision \(result.revision))"]
        if let documentation = result.documentation { lines += self.documentation(documentation) }
        if let lock = result.lock { lines.append(self.lock(lock)) }
        let table = TextTable(headings: ["", "LAYER", "VALUE", "FROM", "SINCE"])
        lines.append(table.text(result.layers.reversed().map { row($0, isWinner: $0.name == result.winner) }))
        return lines.joined(separator: "\n")
    }

    /// The title and description from the schema, and the default.
    private func documentation(_ documentation: ConfigExplain.Documentation) -> [String] {
        let text = [documentation.title, documentation.description].compactMap { $0?.printable }
        let standard = documentation.defaultValue.map { "default: \(Self.short($0))" }
        return text + [standard].compactMap(\.self)
    }

    private func row(_ layer: ConfigExplain.Layer, isWinner: Bool) -> [String] {
        [
            isWinner ? "*" : "", layer.name.printable,
            layer.value.map(Self.short) ?? (layer.isHiding ? "hides lower layers" : "-"),
            from(layer), layer.since.map(since) ?? "",
        ]
    }

    private func from(_ layer: ConfigExplain.Layer) -> String {
        let source = layer.source.map { Provenance.text($0, now: now) }
        let hold = layer.heldRevision.map { "rolled back to revision \($0)" }
        return [source, hold].compactMap(\.self).joined(separator: ", ")
    }

    private func since(_ since: ConfigExplain.Since) -> String {
        "revision \(since.revision), \(since.at.ago(at: now))" + (since.orEarlier ? ", or earlier" : "")
    }

    private func lock(_ lock: ConfigExplain.Lock) -> String {
        let settings = lock.settings.map { " by \($0)" } ?? ""
        let value = lock.file.map { "to the value in \($0)" + (lock.line.map { ":\($0)" } ?? "") } ?? "and has no value"
        return style.problem(
            "\(lock.path.isEmpty ? "everything" : lock.path) is locked\(settings) \(value)".printable)
    }

    /// A value in one line, truncated if it is too long.
    static func short(_ value: JSONValue) -> String {
        let text = value.compactText.printable
        return text.count > valueWidth ? text.prefix(valueWidth - 1) + "…" : text
    }
}
