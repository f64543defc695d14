import ArgumentParser
import LarderClientCore
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

            EXAMPLES:
              larder explain search.limit
              larder explain                     the whole document
              larder explain search.limit --json | jq -r .winner
            """)

    @OptionGroup var path: PathArgument
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
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
    private static func short(_ value: JSONValue) -> String {
        let text = value.compactText.printable
        return text.count > valueWidth ? text.prefix(valueWidth - 1) + "…" : text
    }
}
