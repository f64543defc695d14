/// The layers of one revision, each whole, and the snapshot that they resolve to.
package struct Generation: Sendable {
    package var revision: Int
    /// The digest of the snapshot that the layers resolve to.
    package var digest: SnapshotDigest
    /// In milliseconds since 1970.
    package var publishedAt: Int
    /// The sequence number of the last journal record that the layers contain.
    package var journalSequence: Int
    /// The bound up to which reservations of revisions are settled.
    package var released: Int
    /// The length of the snapshot's text; nil where an older version of this program did not write it down.
    package var bytes: Int?
    /// What the snapshot was published for.
    package var causes: [ChangeCause] = []
    /// The epoch that it was written in; nil if it was not read from disk.
    package var epoch: String?
    /// The layers as they are, or were when the next snapshot was published.
    package var layers: Layers
    /// The layers that the snapshot was published with, where one has changed since without another snapshot.
    package var published: Layers?

    /// The layers that the snapshot was published with.
    package var publishedLayers: Layers { published ?? layers }

    package init(
        revision: Int, digest: SnapshotDigest, publishedAt: Int, journalSequence: Int, released: Int, bytes: Int? = nil,
        causes: [ChangeCause] = [], epoch: String? = nil, layers: Layers, published: Layers? = nil
    ) {
        self.revision = revision
        self.digest = digest
        self.publishedAt = publishedAt
        self.journalSequence = journalSequence
        self.released = released
        self.bytes = bytes
        self.causes = causes
        self.epoch = epoch
        self.layers = layers
        self.published = published
    }
}
