/// The newest snapshots of a namespace as layers, oldest first. Layers that did not change from one to the next share
/// their documents.
struct GenerationHistory: Sendable {
    /// How many are known, here and on disk.
    static let capacity = 16

    private(set) var generations: [Generation] = []

    /// The one that is current; nil where nothing was published.
    var current: Generation? { generations.last }

    /// The snapshot of a revision; nil where it is not known, or no longer.
    subscript(revision: Int) -> Generation? { generations.last { $0.revision == revision } }

    /// Adds the next one, or another state of the last.
    mutating func append(_ generation: Generation) {
        if generations.last?.revision == generation.revision { generations.removeLast() }
        generations.append(generation)
        if generations.count > Self.capacity { generations.removeFirst() }
    }

    /// Notes layers that resolve to what is current already.
    /// - Parameter revision: the current one. Layers of another are not taken: they resolve to something else.
    mutating func update(_ layers: Layers, ofRevision revision: Int) {
        if current?.revision == revision { generations[generations.count - 1].layers = layers }
    }
}

extension Generation {
    /// The same with the documents of another one where they are equal. Those of a running agent are shared already; what
    /// was read from disk is not.
    func sharing(with former: Generation?) -> Generation {
        guard let former else { return self }
        var shared = self
        for layer in FileLayer.allCases {
            if let known = former.layers[layer], known.document == layers[layer]?.document {
                shared.layers[layer]?.document = known.document
            }
        }
        if let known = former.layers.remote, known.document == layers.remote?.document {
            shared.layers.remote?.document = known.document
        }
        if let known = former.layers.hold?.remote?.content, known.document == layers.hold?.remote?.content?.document {
            shared.layers.hold?.remote?.content?.document = known.document
        }
        if former.layers.experiment.overlays == layers.experiment.overlays {
            shared.layers.experiment.overlays = former.layers.experiment.overlays
        }
        return shared
    }
}
