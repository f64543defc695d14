import ArgumentParser
import LarderClientCore
import LarderJSON

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
