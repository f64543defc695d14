import LarderClient
import LarderJSON

/// The differences that a person made in a value.
struct DocumentEdit {
    let old: JSONValue
    let new: JSONValue
    /// The path of the value in the configuration.
    let path: JSONPath

    /// The changes that turn the old value into the new one.
    var changes: [ConfigApply.Change] { ConfigApply.Change.differences(from: old, to: new, at: path) }

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
