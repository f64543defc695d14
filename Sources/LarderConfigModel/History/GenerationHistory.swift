import DequeModule

/// The newest snapshots of a namespace as layers, oldest first. Layers that did not change from one to the next share
/// their documents.
package struct GenerationHistory: Sendable {
    /// How many are in memory; older ones are on disk alone.
    package static let capacity = HistoryLimits.recent

    private var held = Deque<Generation>()

    package init() {}

    /// All of them, oldest first.
    package var generations: [Generation] { Array(held) }

    /// The current one; nil if nothing was published.
    package var current: Generation? { held.last }

    /// The oldest one; nil if nothing was published.
    package var oldest: Generation? { held.first }

    /// Whether there is no room for any that came before.
    package var isFull: Bool { held.count >= Self.capacity }

    /// The snapshot of a revision; nil if it is not known, or no longer.
    package subscript(revision: Int) -> Generation? { held.last { $0.revision == revision } }

    /// Adds the next one, or a later state of the last.
    package mutating func append(_ generation: Generation) {
        if let last = held.last, last.revision == generation.revision {
            held[held.count - 1] = generation.with(generation.layers, published: last.publishedLayers)
            return
        }
        held.append(generation)
        if held.count > Self.capacity { held.removeFirst() }
    }

    /// Adds those that came before all that are known, as many as there is room for.
    /// - Parameter older: newest first.
    package mutating func prepend(_ older: [Generation]) {
        for generation in older.prefix(Self.capacity - held.count) { held.prepend(generation) }
    }

    /// Replaces the layers of the current snapshot by others that resolve to it.
    /// - Parameters:
    ///   - digest: of what the layers resolve to, whose members may be in another order
    ///   - revision: the current one; otherwise nothing changes, since the layers resolve to another snapshot
    ///   - layersChanged: whether a layer has other content than before
    package mutating func update(
        _ layers: Layers, digest: SnapshotDigest, ofRevision revision: Int, layersChanged: Bool
    ) {
        guard let last = held.last, last.revision == revision else { return }
        held[held.count - 1] = last.with(
            layers, published: layersChanged ? last.publishedLayers : last.published, digest: digest)
    }
}

extension Generation {
    /// The same with the documents of another one where they are equal. A running agent shares them already. Those that were
    /// read from disk are not shared.
    package func sharing(with other: Generation?) -> Generation {
        let shared = other.map { layers.sharing(with: $0.layers) } ?? layers
        return with(shared, published: published?.sharing(with: shared))
    }
}

extension Layers {
    fileprivate func sharing(with former: Layers) -> Layers {
        var shared = self
        for layer in FileLayer.allCases {
            if let known = former[layer], known.document == self[layer]?.document {
                shared[layer]?.document = known.document
            }
        }
        if let known = former.remote, known.document == remote?.document { shared.remote?.document = known.document }
        if let known = former.hold?.remote?.content, known.document == hold?.remote?.content?.document {
            shared.hold?.remote?.content?.document = known.document
        }
        if former.experiment.overlays == experiment.overlays {
            shared.experiment.overlays = former.experiment.overlays
        }
        return shared
    }
}
