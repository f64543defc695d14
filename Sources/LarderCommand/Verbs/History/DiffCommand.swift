import ArgumentParser
import LarderJSON
import LarderClientCore

/// `larder diff FROM [TO]`
struct DiffCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "diff",
        abstract: "Show the differences between two snapshots.",
        discussion: """
            Prints one line for each path: + is added, - is removed, ~ is changed. Both revisions must be in larder \
            history (otherwise exit status 3). With --json the result also has the difference as a merge patch.

            EXAMPLES:
              larder diff 40                     from revision 40 to the current one
              larder diff 40 41 --path search
              larder diff 40 --json | jq .patch
            """)

    @Argument(help: ArgumentHelp("The revision to compare from.", valueName: "from"), completion: .revision)
    var from: Int

    @Argument(
        help: ArgumentHelp("The revision to compare with. Default: the current one.", valueName: "to"),
        completion: .revision)
    var to: Int?

    @Option(
        help: ArgumentHelp("Compare only the values at this path.", valueName: "path"), completion: .configurationPath)
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
        if result.changes.isEmpty { return "revisions \(result.from) and \(result.to) are equal" }
        return result.changes.map(line).joined(separator: "\n")
    }

    func line(_ change: ConfigDiff.Change) -> String {
        let path = change.path.isEmpty ? "everything" : JSONPath(change.path).description.printable
        let (old, new) = (change.old?.compactText.printable, change.new?.compactText.printable)
        switch change.kind {
        case .added: return style.good("+ \(path): \(new ?? "")")
        case .removed: return style.problem("- \(path): \(old ?? "")")
        case .changed: return "~ \(path): \(old ?? "") → \(new ?? "")"
        }
    }
}
