import Glibc
import LarderClientCore
import LarderEncoding
import LarderJSON
import LarderProtocol

/// Runs the user's editor on a temporary file, which other users cannot read. `deinit` removes the file.
final class Editor {
    private let directory: String
    private var path: String { directory + "/larder.json5" }

    /// Creates the temporary directory that will contain the file.
    init() throws(Failure) {
        let parent = environmentVariable("TMPDIR") ?? "/tmp"
        var template = Array((parent + "/larder-edit-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure.cannot("create a directory in", parent)
        }
        directory = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit {
        unlink(path)
        rmdir(directory)
    }

    /// Lets the user edit a text, and returns the result.
    func edit(_ text: String) throws(Failure) -> String {
        // The file of an earlier call.
        unlink(path)
        try NewFile.write(Array(text.utf8), to: path)
        let editor = environmentVariable("VISUAL") ?? environmentVariable("EDITOR") ?? "vi"
        // The value of `VISUAL` or `EDITOR` may contain options, so the shell splits it into arguments.
        let status = system("\(editor) \(path.shellWord)")
        guard status == 0 else {
            throw Failure(
                .failure,
                "the editor \"\(editor.printable)\" failed; nothing was changed; set VISUAL or EDITOR to a working one")
        }
        return String(decoding: try Input.text(of: path), as: UTF8.self)
    }
}

/// A value before and after the user edited it.
struct DocumentEdit {
    let old: JSONValue
    let new: JSONValue
    /// The path of the value in the configuration.
    let path: JSONPath

    /// The changes that turn the old value into the new one.
    var changes: [ConfigApply.Change] { ConfigApply.Change.differences(from: old, to: new, at: path) }

    /// Returns another value, such as that of a newer revision, with the user's changes applied. Returns ``new`` if a
    /// merge patch cannot express these changes.
    func applied(to value: JSONValue) -> JSONValue {
        guard let patch = MergePatch.difference(from: old, to: new) else { return new }
        return MergePatch.apply(patch, to: value)
    }
}

/// The text that `larder edit` shows in the editor: notes as comments, then the value.
enum EditText {
    static func text(_ value: JSONValue, notes: [String]) -> String { comments(notes) + value.prettyText + "\n" }

    /// Replaces the notes at the beginning of a text.
    static func replacingNotes(of text: String, by notes: [String]) -> String { comments(notes) + content(of: text) }

    /// Parses the value below the notes of a text; nil if only notes and whitespace are left.
    /// - Parameter noteLines: the number of lines of the notes that will replace the present ones after an error; the
    ///   line in the error counts them.
    static func value(of text: String, noteLines: Int) throws(Failure) -> JSONValue? {
        let content = content(of: text)
        if content.allSatisfy(\.isWhitespace) { return nil }
        let above = String(repeating: "\n", count: noteLines)
        return try LenientJSON.parse(Array((above + content).utf8), name: "the text")
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
