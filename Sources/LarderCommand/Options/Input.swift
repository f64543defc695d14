import Glibc
import ArgumentParser
import LarderEncoding
import LarderJSON
import LarderPlatform

enum Input {
    /// Reads a file to its end; `-` is standard input.
    static func contents(of name: String) throws(Failure) -> [UInt8] {
        let file = try InputFile(name)
        do {
            return try withExtendedLifetime(file) { try readAll(from: file.descriptor) }
        } catch {
            throw Failure(.failure, "cannot read \(displayName(name)): \(error)")
        }
    }

    /// Reads a text to its end, without a byte order mark; `-` is standard input.
    static func text(of name: String) throws(Failure) -> [UInt8] { ByteOrderMark.dropped(from: try contents(of: name)) }

    /// The name of a file for messages.
    static func displayName(_ name: String) -> String { name == "-" ? "standard input" : name.printable }
}

/// An open file that a command reads.
final class InputFile: Sendable {
    let descriptor: CInt

    /// Opens a file.
    /// - Parameter name: its path; `-` is standard input.
    init(_ name: String) throws(Failure) {
        descriptor = name == "-" ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC)
        var status = stat()
        guard descriptor >= 0, fstat(descriptor, &status) == 0 else {
            throw Failure.cannot("read", Input.displayName(name))
        }
        if status.st_mode & S_IFMT == S_IFDIR { throw Failure.cannot("read", Input.displayName(name), EISDIR) }
    }

    deinit { if descriptor > STDIN_FILENO { close(descriptor) } }
}

/// Parses the argument VALUE of `larder set` and `larder replace`.
enum ValueArgument {
    /// Checks that the command line has either VALUE or the option `--value-from`.
    static func validate(_ value: String?, orFile file: String?) throws {
        if file != nil {
            if value != nil { throw ValidationError("--value-from replaces VALUE; leave out one of them") }
        } else if value == nil {
            throw ValidationError("Missing expected argument '<value>'")
        }
    }

    /// Returns the text of a file, without one line end at its end.
    /// - Parameter name: its path; `-` is standard input.
    static func text(inFile name: String) throws(Failure) -> String {
        let bytes = try Input.text(of: name)
        guard var text = String(validating: bytes, as: UTF8.self) else {
            throw Failure(.usage, "\(Input.displayName(name)) is not UTF-8; save it as UTF-8")
        }
        if let last = text.last, last == "\n" || last == "\r\n" { text.removeLast() }
        return text
    }

    /// Parses the text as JSON, or takes it as a string if it is not JSON.
    /// - Parameters:
    ///   - isString: whether the text is taken as a string even if it is JSON
    ///   - hasStringOption: whether the command has the option `--string`
    /// - Throws: ``Failure`` if the text begins like an object, array or string but is not JSON, because that is most
    ///   likely a mistake.
    static func parse(_ text: String, isString: Bool, hasStringOption: Bool = true) throws(Failure) -> JSONValue {
        if isString { return .string(text) }
        do {
            return try JSONValue(parsing: text)
        } catch {
            guard let first = text.first(where: { !$0.isWhitespace }), "{[\"".contains(first) else {
                return .string(text)
            }
            throw Failure(
                .usage,
                "VALUE begins like JSON but is invalid: \(error); correct it"
                    + (hasStringOption ? ", or add --string to use it as a string" : ""))
        }
    }
}
