import LarderClientCore
import LarderEncoding
import LarderJSON
import LarderProtocol

/// Formats the result of a change as text for the user of a command.
enum ChangeReport {
    static func text(_ change: WireConfigChange) -> String {
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

/// Describes, for people, where a value or a snapshot comes from.
enum Provenance {
    /// Describes a local process: `larder (process 4711, user root, login alice)`.
    /// - Parameter loginUID: the user who logged in; nil if unknown. The text omits the login if it is the user of the
    ///   process.
    static func process(_ command: String, pid: Int, uid: Int, loginUID: Int? = nil) -> String {
        let login = loginUID.flatMap { $0 == uid ? nil : ", login \(user($0))" } ?? ""
        return "\(command.isEmpty ? "?" : command.printable) (process \(pid), user \(user(uid))\(login))"
    }

    static func process(_ peer: WirePeer) -> String {
        process(peer.command, pid: peer.pid, uid: peer.uid, loginUID: peer.loginUid)
    }

    /// The name of a user; the number if it has no name on this host.
    private static func user(_ uid: Int) -> String {
        UInt32(exactly: uid).flatMap { AccountName.ofUser($0) }?.printable ?? "\(uid)"
    }

    /// Describes the source of a layer's value.
    static func text(_ source: ConfigExplain.Source, now: Timestamp) -> String {
        var parts: [String] = []
        if let peer = source.peer {
            parts.append("\(source.kind) by \(process(peer))")
        } else if let file = source.file {
            parts.append(file + (source.line.map { ":\($0)" } ?? ""))
            if source.kind == "settings" { parts[0] = "settings \(parts[0])" }
        } else {
            parts.append([source.kind, source.location].compactMap(\.self).joined(separator: " "))
        }
        if let key = source.key { parts.append("key \(key)") }
        if let experiment = source.experiment { parts.append("experiment \(experiment)") }
        if let version = source.version { parts.append("version \(version)") }
        if let end = source.expiresAt {
            parts.append("expires \(Human.ahead(milliseconds: end.milliseconds - now.milliseconds))")
        }
        if let reason = source.reason { parts.append("because: \(reason)") }
        return parts.joined(separator: ", ").printable
    }

    /// Why a snapshot was published: `set search.limit by larder (process 4711, user root), because: load test`.
    static func text(_ cause: ConfigHistory.Cause) -> String {
        var text = cause.kind
        if let path = cause.path { text += path.isEmpty ? " everything" : " \(path)" }
        if let revision = cause.revision { text += " to \(revision)" }
        if let origin = cause.origin { text += " from \(origin)" }
        if let peer = cause.peer { text += " by \(process(peer))" }
        if let reason = cause.reason { text += ", because: \(reason)" }
        return text.printable
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
