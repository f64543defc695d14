import LarderClientCore
import LarderJSON

/// Formats the result of a change as text for the user of a command.
enum ChangeReport {
    static func text(_ change: ConfigChange) -> String {
        guard change.isDryRun else { return change.summary }
        return dryRun(change.changes ?? [], change.schemaErrors ?? [], at: change.revision)
    }

    /// The result of a dry run: a heading, then one line per difference and per violation of the schema.
    static func dryRun(_ changes: [ConfigDiff.Change], _ errors: [SchemaError], at revision: Int) -> String {
        let report = DiffReport(style: .standardOutput)
        var lines =
            changes.isEmpty
            ? ["dry run: the configuration would stay as it is in revision \(revision)"]
            : ["dry run: this would change in revision \(revision)"] + changes.map(report.line)
        if !errors.isEmpty {
            lines +=
                [report.style.problem("the result would violate the schema")] + errors.map { "  " + $0.text.printable }
        }
        return lines.joined(separator: "\n")
    }
}

extension SchemaError {
    /// The path, the message and the source of the value, in one line.
    var text: String {
        let place = path.isEmpty ? "" : "\(JSONPath(path)): "
        var source = layer.map { "layer \($0)" } ?? ""
        if let location { source += (source.isEmpty ? "" : ", ") + location + (line.map { ":\($0)" } ?? "") }
        return place + message + (source.isEmpty ? "" : " (\(source))")
    }
}
