import LarderClient
import LarderJSON

/// The differences that a person made in a value.
struct DocumentEdit {
    let old: JSONValue
    let new: JSONValue
    /// The path of the value in the configuration.
    let path: JSONPath

    /// The changes that turn the old value into the new one. Objects are compared member by member, so that the values
    /// of other members stay in their layers. A removed member is hidden by a null.
    var changes: [ConfigApply.Change] {
        var changes: [ConfigApply.Change] = []
        Self.compare(old, new, path.segments, into: &changes)
        return changes
    }

    private static func compare(
        _ old: JSONValue, _ new: JSONValue, _ path: [String], into changes: inout [ConfigApply.Change]
    ) {
        if old == new { return }
        guard old.kind == .object, new.kind == .object else {
            changes.append(ConfigApply.Change(.set(new), at: JSONPath(path)))
            return
        }
        for (name, value) in old.members {
            if let member = new[name] {
                compare(value, member, path + [name], into: &changes)
            } else {
                changes.append(ConfigApply.Change(.set(.null), at: JSONPath(path + [name])))
            }
        }
        for (name, value) in new.members where old[name] == nil {
            changes.append(ConfigApply.Change(.set(value), at: JSONPath(path + [name])))
        }
    }

    /// The same differences made in another value; the new value itself if they cannot be expressed as a merge patch.
    func applied(to value: JSONValue) -> JSONValue {
        guard let patch = MergePatch.difference(from: old, to: new) else { return new }
        return MergePatch.apply(patch, to: value)
    }
}

/// The text that `larder edit` shows in the editor: notes as comments, then the value.
enum EditText {
    static func text(_ value: JSONValue, notes: [String]) -> String { comments(notes) + value.prettyText + "\n" }

    /// The text with other notes.
    static func replacingNotes(of text: String, by notes: [String]) -> String { comments(notes) + content(of: text) }

    /// Parses the text; nil if only comments are left.
    static func value(of text: String) throws(Failure) -> JSONValue? {
        let content = content(of: text)
        if content.allSatisfy(\.isWhitespace) { return nil }
        return try LenientJSON.parse(Array(content.utf8), name: "the text")
    }

    /// The text without the comments at its beginning.
    private static func content(of text: String) -> String {
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)[...]
        while let line = lines.first, line.hasPrefix("//") { lines = lines.dropFirst() }
        return lines.joined(separator: "\n")
    }

    private static func comments(_ notes: [String]) -> String {
        notes.map { "// \($0.printable)\n" }.joined()
    }
}
