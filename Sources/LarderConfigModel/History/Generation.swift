/// The layers of one revision, each whole, and the snapshot that they resolve to.
///
/// A class that never changes, because the history and the writer of generations share it. A struct of ten members would be copied
/// for each of them at each publication.
package final class Generation: Sendable {
    package let revision: Int
    /// The digest of the snapshot that the layers resolve to.
    package let digest: SnapshotDigest
    /// In milliseconds since 1970.
    package let publishedAt: Int
    /// The sequence number of the last journal record that the layers contain.
    package let journalSequence: Int
    /// The bound up to which reservations of revisions are settled.
    package let released: Int
    /// The length of the snapshot's text; nil if an older version of this program did not record it.
    package let bytes: Int?
    /// What the snapshot was published for.
    package let causes: [ChangeCause]
    /// The epoch that it was written in; nil if it was not read from disk.
    package let epoch: String?
    /// The layers as they are, or were when the next snapshot was published.
    package let layers: Layers
    /// The layers that the snapshot was published with, if one has changed since without another snapshot.
    package let published: Layers?

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

    /// The same snapshot with other layers.
    /// - Parameter digest: of what the layers resolve to; nil for the same
    package func with(_ layers: Layers, published: Layers?, digest: SnapshotDigest? = nil) -> Generation {
        Generation(
            revision: revision, digest: digest ?? self.digest, publishedAt: publishedAt,
            journalSequence: journalSequence, released: released, bytes: bytes, causes: causes, epoch: epoch,
            layers: layers, published: published)
    }

    /// The same snapshot for a state directory without the journal and the reservations of this one.
    package func withoutJournal() -> Generation {
        Generation(
            revision: revision, digest: digest, publishedAt: publishedAt, journalSequence: 0, released: 0, bytes: bytes,
            causes: causes, epoch: epoch, layers: layers, published: published)
    }
}
