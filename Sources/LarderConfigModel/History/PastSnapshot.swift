import LarderJSON

/// A snapshot of the history.
package struct PastSnapshot: Sendable {
    package var revision: Int
    /// SHA-256 of its compact text, in lowercase hex.
    package var digest: String
    /// The length of that text.
    package var bytes: Int
    /// When it was published, in milliseconds since 1970.
    package var publishedAt: Int
    /// The upstream version of the remote document that it was published with; nil if that had none.
    package var upstreamVersion: String?
    /// Why it was published; empty if an older version of this program published it.
    package var causes: [ChangeCause]
    /// Whether it is kept until it is unpinned.
    package var isPinned = false

    /// Describes generations. It runs away from every actor, because digests, and sizes that an older version of this program did
    /// not record, have to be computed.
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
