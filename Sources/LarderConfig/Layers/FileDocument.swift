import LarderJSON

/// The document of a layer that is read from files.
struct FileDocument: Sendable {
    /// Applied before the document; see ``ComposedPatch``.
    var removals: JSONValue?
    var document: JSONValue
    /// When it last changed, in milliseconds since 1970.
    var updatedAt: Int

    init(removals: JSONValue? = nil, document: JSONValue, updatedAt: Int) {
        self.removals = removals
        self.document = document
        self.updatedAt = updatedAt
    }

    init(_ content: ComposedPatch, updatedAt: Int) {
        self.init(removals: content.removals, document: content.patch, updatedAt: updatedAt)
    }

    /// Both parts.
    var content: ComposedPatch { ComposedPatch(removals: removals, patch: document) }
}

extension ComposedPatch {
    /// A patch that changes nothing.
    static let empty = ComposedPatch(.emptyObject)
}
