package import LarderJSON

/// An error in an operation on the configuration.
package struct ConfigError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of an error.
    package enum Code: String, Sendable {
        /// The source returned no usable response.
        case upstreamFailed
        /// A document or value was rejected: for example, it is not a JSON object, is too large, is older than the
        /// current document, or would remove too many members.
        case rejected
        /// The state directory could not store the change.
        case storageFailed
        /// The caller cancelled the request before it took effect.
        case cancelled
        /// The namespace is stopping, or its settings changed during the request.
        case stopped
        /// The change is impossible in the current configuration, such as an override inside an array.
        case invalidChange
        /// The path of the change is locked in the settings.
        case locked
        /// No snapshot of the requested revision is kept.
        case notFound
        /// The condition of the change does not hold; nothing was changed.
        case conflict
        /// The resulting configuration would violate the schema of the namespace; nothing was changed.
        case schemaViolation
    }

    package let code: Code
    /// One line: what happened and what to do.
    package let message: String
    /// How long the source asked clients to wait (`Retry-After`); nil if it did not.
    package let retryAfter: Duration?

    /// Whether a refresh or push with `force` skips the check that rejected the document.
    package let canForce: Bool
    /// How many members the document would remove, if it was rejected for that; otherwise nil.
    package let deletion: MassDeletion?
    /// The path whose value caused a `conflict`; nil if the revision or the epoch caused it, and for other errors.
    package let conflictPath: JSONPath?
    /// The violations if the code is `schemaViolation`; otherwise empty.
    package let schemaProblems: [SchemaProblem]

    package init(
        _ code: Code, _ message: String, retryAfter: Duration? = nil, canForce: Bool = false,
        deletion: MassDeletion? = nil, schemaProblems: [SchemaProblem] = []
    ) {
        self.code = code
        self.message = message
        self.retryAfter = retryAfter
        self.canForce = canForce
        self.deletion = deletion
        self.schemaProblems = schemaProblems
        conflictPath = nil
    }

    /// Creates a `conflict`.
    /// - Parameter path: the path of the value that caused it; nil if the revision or the epoch did
    init(conflictAt path: [String]?, _ message: String) {
        code = .conflict
        self.message = message
        (retryAfter, canForce, deletion, schemaProblems) = (nil, false, nil, [])
        conflictPath = path.map { JSONPath($0) }
    }

    package var description: String { message }

    /// Whether a document or value was rejected because of its content.
    package var isRejection: Bool { code == .rejected || code == .schemaViolation }
}
