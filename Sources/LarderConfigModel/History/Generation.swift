import DequeModule
import LarderJSON

/// The layers of one revision, and the snapshot that they resolve to.
///
/// It is an immutable class, because the history and the writer of generations share it. A struct of ten members would
/// be copied for each of them at every publication.
package final class Generation: Sendable {
    package let revision: Int
    /// The digest of the resolved layers.
    package let digest: SnapshotDigest
    /// In milliseconds since 1970.
    package let publishedAt: Int
    /// The sequence number of the last journal record whose changes are in the layers.
    package let journalSequence: Int
    /// Reservations up to this bound are settled: no revision above ``revision`` was published under them.
    package let released: Int
    /// The size of the snapshot's text in bytes; nil if an older version of this program did not record it.
    package let bytes: Int?
    /// Why the snapshot was published.
    package let causes: [ChangeCause]
    /// The epoch in which the file was written; nil if the generation was not read from disk.
    package let epoch: String?
    /// The newest layers that resolve to this snapshot. They may have changed since its publication; see ``published``.
    package let layers: Layers
    /// The layers when the snapshot was published; nil if no layer has changed since then.
    package let published: Layers?

    /// The layers when the snapshot was published.
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

    /// Returns a copy with other layers.
    /// - Parameter digest: the digest of the resolved layers; nil to keep the current one
    package func with(_ layers: Layers, published: Layers?, digest: SnapshotDigest? = nil) -> Generation {
        Generation(
            revision: revision, digest: digest ?? self.digest, publishedAt: publishedAt,
            journalSequence: journalSequence, released: released, bytes: bytes, causes: causes, epoch: epoch,
            layers: layers, published: published)
    }

    /// Returns a copy for another state directory, which does not have the journal and the reservations of the current
    /// one.
    package func withoutJournal() -> Generation {
        Generation(
            revision: revision, digest: digest, publishedAt: publishedAt, journalSequence: 0, released: 0, bytes: bytes,
            causes: causes, epoch: epoch, layers: layers, published: published)
    }
}

/// The newest snapshots of a namespace, oldest first. Layers that are equal in consecutive snapshots share their
/// documents.
package struct GenerationHistory: Sendable {
    /// The maximum number of snapshots in memory. Older ones are only on disk.
    package static let capacity = HistoryLimits.recent

    private var entries = Deque<Generation>()

    package init() {}

    package var generations: [Generation] { Array(entries) }

    /// The newest snapshot; nil if nothing was published.
    package var current: Generation? { entries.last }

    /// The snapshot with a revision; nil if it is not in memory.
    package subscript(revision: Int) -> Generation? { entries.last { $0.revision == revision } }

    /// Appends the next snapshot. If the newest one has the same revision, it is replaced instead, and the layers with
    /// which it was published are kept.
    package mutating func append(_ generation: Generation) {
        if let last = entries.last, last.revision == generation.revision {
            entries[entries.count - 1] = generation.with(generation.layers, published: last.publishedLayers)
            return
        }
        entries.append(generation)
        if entries.count > Self.capacity { entries.removeFirst() }
    }

    /// Replaces the newest snapshot, whose layers have changed and resolve to the same value.
    /// - Parameter generation: nothing changes unless it has the revision of the newest snapshot
    package mutating func update(_ generation: Generation) {
        guard entries.last?.revision == generation.revision else { return }
        entries[entries.count - 1] = generation
    }
}

/// A snapshot of the history.
package struct PastSnapshot: Sendable {
    package var revision: Int
    /// SHA-256 of the compact text, in lowercase hex.
    package var digest: String
    /// The size of the compact text in bytes.
    package var bytes: Int
    /// In milliseconds since 1970.
    package var publishedAt: Int
    /// The upstream version of the remote document in the snapshot; nil for none.
    package var upstreamVersion: String?
    /// Why the snapshot was published; empty if an older version of this program published it.
    package var causes: [ChangeCause]
    package var isPinned = false

    /// Describes generations. This runs off every actor, because digests may have to be computed, and also sizes, if an
    /// older version of this program did not record them.
    @concurrent
    package static func describe(_ generations: [Generation]) async -> [PastSnapshot] {
        generations.map { generation in
            PastSnapshot(
                revision: generation.revision, digest: generation.digest.text,
                bytes: generation.bytes ?? generation.layers.resolved().textSize, publishedAt: generation.publishedAt,
                upstreamVersion: generation.publishedLayers.shown.remote?.version?.text, causes: generation.causes)
        }
    }
}
