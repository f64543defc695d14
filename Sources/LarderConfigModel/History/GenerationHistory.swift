import DequeModule

/// The newest snapshots of a namespace as layers, oldest first. Layers that did not change from one to the next share
/// their documents.
package struct GenerationHistory: Sendable {
    /// How many are in memory; older ones are on disk alone.
    package static let capacity = HistoryLimits.recent

    /// A generation has many members; to move sixteen of them at each publication took a fifth of its time.
    private final class Held: Sendable {
        let generation: Generation
        init(_ generation: Generation) { self.generation = generation }
    }

    private var held = Deque<Held>()

    package init() {}

    /// All of them, oldest first.
    package var generations: [Generation] { held.map(\.generation) }

    /// The one that is current; nil where nothing was published.
    package var current: Generation? { held.last?.generation }

    /// The oldest one; nil where nothing was published.
    package var oldest: Generation? { held.first?.generation }

    /// Whether there is no room for any that came before.
    package var isFull: Bool { held.count >= Self.capacity }

    /// The snapshot of a revision; nil where it is not known, or no longer.
    package subscript(revision: Int) -> Generation? { held.last { $0.generation.revision == revision }?.generation }

    /// Adds the next one, or a later state of the last.
    package mutating func append(_ generation: Generation) {
        var generation = generation
        if let last = held.last?.generation, last.revision == generation.revision {
            generation.published = last.publishedLayers
            held.removeLast()
        }
        held.append(Held(generation))
        if held.count > Self.capacity { held.removeFirst() }
    }

    /// Adds those that came before all that are known, as many as there is room for.
    /// - Parameter older: newest first.
    package mutating func prepend(_ older: [Generation]) {
        for generation in older.prefix(Self.capacity - held.count) { held.prepend(Held(generation)) }
    }

    /// Notes layers that resolve to what is current already.
    /// - Parameters:
    ///   - digest: of what they resolve to: its members may stand in another order
    ///   - revision: the current one; layers of another are not taken, since they resolve to something else
    ///   - layersChanged: whether a layer says something else than before
    package mutating func update(
        _ layers: Layers, digest: SnapshotDigest, ofRevision revision: Int, layersChanged: Bool
    ) {
        guard var generation = held.last?.generation, generation.revision == revision else { return }
        if layersChanged { generation.published = generation.publishedLayers }
        generation.layers = layers
        generation.digest = digest
        held[held.count - 1] = Held(generation)
    }
}

extension Generation {
    /// The same with the documents of another one where they are equal. Those of a running agent are shared already; what
    /// was read from disk is not.
    package func sharing(with former: Generation?) -> Generation {
        var shared = self
        if let former { shared.layers = layers.sharing(with: former.layers) }
        shared.published = published?.sharing(with: shared.layers)
        return shared
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
