import LarderJSON

/// The format in which a value of the configuration is printed.
enum ValueFormat {
    /// Strings without quotes, objects and arrays over several lines.
    case pretty
    /// Strings without quotes, objects and arrays in one line.
    case compact

    /// The text of a value, without a final line end.
    /// - Parameter isTerminal: whether the text is for a terminal. If so, control characters in a string are escaped;
    ///   otherwise the string is unchanged.
    func text(_ value: JSONValue, isTerminal: Bool = false) -> String {
        if let string = value.string { return isTerminal ? string.printableLines : string }
        return self == .pretty ? value.prettyText : value.compactText
    }

    /// The text of a value in one line; empty if there is no value. A string with control characters is written as
    /// JSON.
    static func line(_ value: JSONValue?) -> String {
        guard let value else { return "" }
        if let string = value.string, !string.hasControls { return string }
        return value.compactText
    }
}

/// Parses the argument VALUE of `larder set`.
enum ValueArgument {
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
    /// - Parameter isString: whether the text is taken as a string even if it is JSON.
    /// - Throws: ``Failure`` if the text begins like an object, array or string but is not JSON, because that is most
    ///   likely a mistake.
    static func parse(_ text: String, isString: Bool) throws(Failure) -> JSONValue {
        if isString { return .string(text) }
        do {
            return try JSONValue(parsing: text)
        } catch {
            guard let first = text.first(where: { !$0.isWhitespace }), "{[\"".contains(first) else {
                return .string(text)
            }
            throw Failure(
                .usage,
                "VALUE begins like JSON but is invalid: \(error); correct it, or add --string to use it as a string")
        }
    }
}
