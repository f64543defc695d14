/// The error of a schema that cannot be used.
package struct SchemaError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Code: String, Sendable {
        /// The value of a keyword is invalid.
        case invalidKeyword
        /// A schema is neither an object nor a boolean.
        case invalidSchema
        /// `$schema` names a dialect that is not supported, or that requires an unknown vocabulary.
        case unknownDialect
        /// A reference is not a valid URI reference, or has no target.
        case unresolvedReference
        /// References lead back to the same schema for the same value, so that validation would not end.
        case endlessReference
        /// Two schemas have the same identifier or anchor.
        case duplicateIdentifier
        /// A regular expression is invalid or not supported.
        case invalidPattern
        /// The schema is valid, but exceeds a limit of this module.
        case unsupported
    }

    package let code: Code
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
