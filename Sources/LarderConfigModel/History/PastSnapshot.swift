import LarderJSON

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
