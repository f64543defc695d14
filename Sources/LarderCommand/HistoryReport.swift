import LarderClient

/// `larder history` for people: one line for each snapshot, newest first, the current one marked.
struct HistoryReport {
    /// The time that ages are counted from.
    let now: Timestamp

    private static let table = TextTable(
        headings: ["", "REVISION", "PUBLISHED", "SIZE", "VERSION", "BECAUSE OF"], figures: [1, 3])

    /// The whole table without its last line end.
    func text(_ generations: [ConfigHistory.Generation]) -> String { Self.table.text(generations.map(row)) }

    private func row(_ generation: ConfigHistory.Generation) -> [String] {
        [
            generation.current ? "*" : "", "\(generation.revision)",
            Human.ago(milliseconds: now.milliseconds - generation.publishedAt.milliseconds),
            Human.bytes(generation.bytes), generation.upstreamVersion?.printable ?? "",
            generation.causes.map(Provenance.text).joined(separator: "; "),
        ]
    }
}

/// `larder diff` for people: one line for each place that differs.
struct DiffReport {
    let style: Style

    /// The whole report without its last line end.
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
