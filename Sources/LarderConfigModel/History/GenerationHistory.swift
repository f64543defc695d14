/// The newest snapshots of a namespace, oldest first. Layers that are equal in consecutive snapshots share their
/// documents.
package struct GenerationHistory: Sendable {
    /// The maximum number of snapshots in memory. Older ones are only on disk.
    package static let capacity = HistoryLimits.recent

    package private(set) var generations: [Generation] = []

    package init() {}

    /// The newest snapshot; nil if nothing was published.
    package var current: Generation? { generations.last }

    /// The snapshot with a revision; nil if it is not in memory.
    package subscript(revision: Int) -> Generation? { generations.last { $0.revision == revision } }

    /// Appends the next snapshot. If the newest one has the same revision, it is replaced instead, and the layers with
    /// which it was published are kept.
    package mutating func append(_ generation: Generation) {
        if let last = generations.last, last.revision == generation.revision {
            generations[generations.count - 1] = generation.with(generation.layers, published: last.publishedLayers)
            return
        }
        generations.append(generation)
        if generations.count > Self.capacity { generations.removeFirst() }
    }

    /// Replaces the layers of the newest snapshot with layers that resolve to the same value.
    /// - Parameters:
    ///   - digest: the digest of the resolved layers, whose members may be in another order
    ///   - revision: the revision of the current snapshot; nothing changes if the newest snapshot here has another
    ///     revision
    ///   - layersChanged: whether a layer has other content than before
    package mutating func update(
        _ layers: Layers, digest: SnapshotDigest, ofRevision revision: Int, layersChanged: Bool
    ) {
        guard let last = generations.last, last.revision == revision else { return }
        generations[generations.count - 1] = last.with(
            layers, published: layersChanged ? last.publishedLayers : last.published, digest: digest)
    }
}
