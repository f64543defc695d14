import JSON

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
