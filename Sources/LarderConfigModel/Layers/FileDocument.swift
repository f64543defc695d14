package import LarderJSON

/// The document of a layer that is read from files.
package struct FileDocument: Sendable {
    /// Applied before the document; see ``ComposedPatch``.
    package var removals: JSONValue?
    package var document: JSONValue
    /// When it last changed, in milliseconds since 1970.
    package var updatedAt: Int

    package init(removals: JSONValue? = nil, document: JSONValue, updatedAt: Int) {
        self.removals = removals
        self.document = document
        self.updatedAt = updatedAt
    }

    package init(_ content: ComposedPatch, updatedAt: Int) {
        self.init(removals: content.removals, document: content.patch, updatedAt: updatedAt)
    }

    /// Both parts.
    package var content: ComposedPatch { ComposedPatch(removals: removals, patch: document) }
}

extension ComposedPatch {
    /// A patch that changes nothing.
    package static let empty = ComposedPatch(.emptyObject)
}
