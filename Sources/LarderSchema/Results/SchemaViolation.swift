package import LarderJSON

/// A place where a value does not satisfy a schema.
package struct SchemaViolation: Sendable, Equatable, CustomStringConvertible {
    /// The path of the value within the validated document.
    package let path: JSONPath
    /// The location of the keyword: a JSON Pointer after `#`. In other documents than the main one, the URI of the
    /// document precedes it. A location in a definition does not show the references that lead to it.
    package let schemaLocation: String
    package let keyword: String
    /// The expectation and the value found, in one line.
    package let message: String

    /// The path and the message.
    package var description: String { path.isRoot ? message : "\(path): \(message)" }
}
