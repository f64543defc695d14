/// What the settings allow documents to do.
package struct DocumentLimits: Sendable, Equatable {
    /// The size of a pushed document, and of all overrides together, in bytes.
    package var maximumBytes: Int
    /// The percentage of the remote document's members that another document may remove; nil for all.
    package var maximumDeletion: Int?

    package init(maximumBytes: Int, maximumDeletion: Int? = nil) {
        self.maximumBytes = maximumBytes
        self.maximumDeletion = maximumDeletion
    }
}
