import LarderClient

/// Formats the result of a change as text for the user of a command.
struct ChangeReport {
    let style: Style

    func text(_ change: ConfigChange) -> String {
        guard change.isDryRun else { return change.summary }
        return dryRun(change.changes ?? [], at: change.revision)
    }

    /// The result of a dry run: a heading, then one line per difference.
    func dryRun(_ changes: [ConfigDiff.Change], at revision: Int) -> String {
        if changes.isEmpty { return "dry run: the configuration would stay as it is in revision \(revision)" }
        let report = DiffReport(style: style)
        return (["dry run: this would change in revision \(revision)"] + changes.map(report.line))
            .joined(separator: "\n")
    }
}
