package import LarderJSON

/// A place where a value does not satisfy a schema.
package struct SchemaViolation: Sendable, Equatable, CustomStringConvertible {
    /// The path of the value within the validated document.
    package let path: JSONPath
    /// The location of the keyword: a JSON Pointer after `#`. In documents other than the main one, the URI of the
    /// document precedes the `#`. For a keyword in a definition, the references that lead to the definition are not
    /// shown.
    package let schemaLocation: String
    package let keyword: String
    /// What was expected and what was found, in one line.
    package let message: String
    /// The message with the type of the value found instead of the value, for logs and for readers who must not see the
    /// value.
    package let messageWithoutValue: String

    /// The path and the message; only the message if the path is the root.
    package var description: String { path.isRoot ? message : "\(path): \(message)" }
}
