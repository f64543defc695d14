import LarderJSON

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

/// Changes that are committed together. Each is judged by the layers as the changes before it left them.
package struct ChangeBatch: Sendable {
    /// What a change did.
    package struct Result: Sendable {
        package let layerChanged: Bool
        /// The rule by which a rollback holds documents after the change; nil if nothing is held.
        package let hold: HoldRule?
        /// How long the override lasts that was set; nil for other changes.
        package let lifetime: OverrideLifetime?
    }

    /// The layers with all changes.
    package private(set) var layers: Layers
    /// The changes of layers that the journal records.
    package private(set) var operations: [LayerOperation] = []
    /// The scalars by which the configuration differs, if they are replaced by others and nothing else differs; else nil.
    private(set) var replacements: [JSONValue.Replacement]? = []
    private var made: [LayerChange] = []
    private let base: Layers
    private let resolved: JSONValue
    private let limits: DocumentLimits
    private let now: Int

    /// - Parameters:
    ///   - resolved: what the layers resolve to
    ///   - now: in milliseconds since 1970
    init(on layers: Layers, resolvingTo resolved: JSONValue, limits: DocumentLimits, now: Int) {
        self.layers = layers
        base = layers
        self.resolved = resolved
        self.limits = limits
        self.now = now
    }

    /// Whether a layer has changed.
    package var hasChanged: Bool { !made.isEmpty }

    /// Why the snapshot with these changes is published.
    package var causes: [ChangeCause] { made.map(\.cause).joined() }

    /// Applies a change.
    /// - Throws: as ``LayerChange/apply(to:resolved:limits:now:)``; the batch is as before then.
    package mutating func apply(_ change: LayerChange) throws(ConfigError) -> Result {
        let path = change.path ?? []
        let isPrepared = path.count > 1 && made.contains { $0.mayChangeContainers(above: path) }
        let effect = try change.apply(
            to: &layers, resolved: isPrepared ? layers.resolved() : resolved, maximumBytes: limits.maximumBytes,
            maximumDeletion: limits.maximumDeletion, now: now)
        switch effect {
        case .none: return Result(layerChanged: false, hold: layers.hold?.rule, lifetime: nil)
        case .changed(let operation, let some, let lifetime):
            made.append(change)
            if let operation { operations.append(operation) }
            if let some { replacements?.append(contentsOf: some) } else { replacements = nil }
            return Result(layerChanged: true, hold: layers.hold?.rule, lifetime: lifetime)
        }
    }

    /// Ends the batch: records the experiments, which follow from the other operations and from the settings, and the journal
    /// does not know the settings.
    package mutating func finish() {
        guard !operations.isEmpty, layers.experiment.overlays != base.experiment.overlays else { return }
        operations.append(.experiment(layers.experiment))
    }
}
