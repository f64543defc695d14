/// The limits in the settings for documents.
package struct DocumentLimits: Sendable, Equatable {
    /// The maximum size of a document, and of all overrides together, in bytes.
    package var maximumBytes: Int
    /// The maximum percentage of the remote document's members that another document may remove; nil for no limit.
    package var maximumDeletion: Int?

    package init(maximumBytes: Int, maximumDeletion: Int? = nil) {
        self.maximumBytes = maximumBytes
        self.maximumDeletion = maximumDeletion
    }
}
