package import LarderJSON

/// The content of a layer that is read from files.
package struct FileDocument: Sendable {
    /// A merge patch of nulls that is applied before ``document``; see ``ComposedPatch``. Nil for none.
    package var removals: JSONValue?
    package var document: JSONValue
    /// When the document last changed, in milliseconds since 1970.
    package var updatedAt: Int

    package init(removals: JSONValue? = nil, document: JSONValue, updatedAt: Int) {
        self.removals = removals
        self.document = document
        self.updatedAt = updatedAt
    }

    package init(_ content: ComposedPatch, updatedAt: Int) {
        self.init(removals: content.removals, document: content.patch, updatedAt: updatedAt)
    }

    /// ``removals`` and ``document`` as one patch.
    package var content: ComposedPatch { ComposedPatch(removals: removals, patch: document) }
}

extension ComposedPatch {
    /// A patch that changes nothing.
    package static let empty = ComposedPatch(.emptyObject)
}
