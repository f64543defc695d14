/// The limits in the settings for documents.
package struct DocumentLimits: Sendable, Equatable {
    /// The maximum size of a document, and of all overrides together, in bytes.
    package var maximumBytes: Int
    /// The maximum percentage of the remote document's members that another document may remove; nil for no limit.
    package var maximumDeletion: Int?
    /// Whether a new remote document is first shown only to canaries.
    package var startsRollouts: Bool

    package init(maximumBytes: Int, maximumDeletion: Int? = nil, startsRollouts: Bool = false) {
        self.maximumBytes = maximumBytes
        self.maximumDeletion = maximumDeletion
        self.startsRollouts = startsRollouts
    }
}
