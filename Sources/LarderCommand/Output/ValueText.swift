import LarderJSON

/// How a value of the configuration is printed.
enum ValueFormat {
    /// Strings bare, objects and arrays over several lines.
    case pretty
    /// Strings bare, objects and arrays in one line.
    case compact

    /// The text of a value, without a line end.
    /// - Parameter isTerminal: a terminal is not given the control characters that a string may hold; a pipe gets every
    ///   byte as it is.
    func text(_ value: JSONValue, isTerminal: Bool = false) -> String {
        if let string = value.string { return isTerminal ? string.printableLines : string }
        return self == .pretty ? value.prettyText : value.compactText
    }

    /// The text of a value in one line, whatever it holds; empty where there is no value. A string that would take more
    /// than one line is written as JSON.
    static func line(_ value: JSONValue?) -> String {
        guard let value else { return "" }
        if let string = value.string, !string.hasControls { return string }
        return value.compactText
    }
}

/// How `larder set` reads its VALUE.
enum ValueArgument {
    /// Reads JSON where it is JSON, and takes the text itself as a string otherwise.
    /// - Parameter isString: takes the text as a string in any case.
    /// - Throws: ``Failure`` where the text begins like an object, array or string and is none: that is a slip, hardly
    ///   what somebody wants to read back as a string.
    static func parse(_ text: String, isString: Bool) throws(Failure) -> JSONValue {
        if isString { return .string(text) }
        do {
            return try JSONValue(parsing: text)
        } catch {
            guard let first = text.first(where: { !$0.isWhitespace }), "{[\"".contains(first) else {
                return .string(text)
            }
            throw Failure(
                .usage, "VALUE begins like JSON but is not: \(error); correct it, or add --string to set it as a string"
            )
        }
    }
}
