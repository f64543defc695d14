import Glibc
import LarderEncoding
import LarderPlatform

/// Runs the user's editor on a temporary file, which other users cannot read. `deinit` removes the file.
final class Editor {
    private let directory: String
    private var path: String { directory + "/larder.json5" }

    /// Creates the temporary directory that will contain the file.
    init() throws(Failure) {
        let parent = Self.variable("TMPDIR") ?? "/tmp"
        var template = Array((parent + "/larder-edit-XXXXXX").utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure(.failure, "cannot create a directory in \(parent): \(String(cString: strerror(errno)))")
        }
        directory = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    deinit {
        unlink(path)
        rmdir(directory)
    }

    /// Lets the user edit a text, and returns the result.
    func edit(_ text: String) throws(Failure) -> String {
        try write(text)
        let editor = Self.variable("VISUAL") ?? Self.variable("EDITOR") ?? "vi"
        // The value of `VISUAL` or `EDITOR` may contain options, so the shell splits it into arguments.
        let status = system("\(editor) \(path.shellWord)")
        guard status == 0 else {
            throw Failure(
                .failure,
                "the editor \"\(editor.printable)\" failed; nothing was changed; set VISUAL or EDITOR to a working one")
        }
        return String(decoding: try Input.text(of: path), as: UTF8.self)
    }

    private func write(_ text: String) throws(Failure) {
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Input.failure(path) }
        defer { close(file) }
        do throws(Errno) {
            try writeAll(Array(text.utf8), to: file)
        } catch {
            throw Failure(.failure, "cannot write \(path): \(error)")
        }
    }

    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
    }
}
