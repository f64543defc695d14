import ArgumentParser
import LarderJSON
import LarderClient

/// `larder diff FROM [TO]`
struct DiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Show what differs between two snapshots.",
        discussion: """
            One line for each place: + is new, - is gone, ~ has changed. A revision that larder history does not list is \
            not known any more (exit status 3). With --json the difference is there as a merge patch, too.

            EXAMPLES:
              larder diff 40                     from revision 40 to the current one
              larder diff 40 41 --path search
              larder diff 40 --json | jq .patch
            """)

    @Argument(help: ArgumentHelp("The revision to begin from.", valueName: "from"))
    var from: Int

    @Argument(help: ArgumentHelp("The revision to go to; left out for the current one.", valueName: "to"))
    var to: Int?

    @Option(help: ArgumentHelp("Compare only what is at this path.", valueName: "path"))
    var path = ""

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let parameters = ConfigDiff.Parameters(
            from: from, to: to, namespace: namespace.namespace, path: try PathArgument.parse(path))
        try await agent.printResult(of: ConfigDiff.self, parameters) { result in
            DiffReport(style: .standardOutput).text(result)
        }
    }
}

/// The output of `larder diff` for people: one line per difference.
struct DiffReport {
    let style: Style

    /// The report without a final line end.
    func text(_ result: ConfigDiff.Result) -> String {
        if result.changes.isEmpty { return "revisions \(result.from) and \(result.to) say the same" }
        return result.changes.map(line).joined(separator: "\n")
    }

    private func line(_ change: ConfigDiff.Change) -> String {
        let path = change.path.isEmpty ? "everything" : JSONPath(change.path).description.printable
        let (old, new) = (change.old?.compactText.printable, change.new?.compactText.printable)
        switch change.kind {
        case .added: return style.added("+ \(path): \(new ?? "")")
        case .removed: return style.problem("- \(path): \(old ?? "")")
        case .changed: return "~ \(path): \(old ?? "") → \(new ?? "")"
        }
    }
}
