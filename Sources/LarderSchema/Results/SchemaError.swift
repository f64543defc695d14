/// The error of a schema that cannot be used.
package struct SchemaError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The location of the keyword or schema: a JSON Pointer after `#`. In documents other than the main one, the URI
    /// of the document precedes the `#`.
    package let location: String
    /// A description of the error, in one line.
    package let detail: String

    package var description: String { "\(location): \(detail)" }

    /// The error with the file of the main document: `FILE#/POINTER: DETAIL`, or `FILE: URI#/POINTER: DETAIL` for an
    /// error in another document.
    package func description(inFile file: String) -> String {
        location.hasPrefix("#") ? file + description : "\(file): \(description)"
    }
}
