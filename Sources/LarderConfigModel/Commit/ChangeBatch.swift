import LarderJSON

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
    /// The changes of layers that the journal records; empty if it records none of this batch.
    package private(set) var operations: [LayerOperation] = []
    /// The overrides that were set and expire. Others expire too if ``restoresOverrides``.
    package private(set) var newExpiries: [ExpiringOverride] = []
    /// Whether overrides are back that had been replaced or removed.
    package private(set) var restoresOverrides = false
    private(set) var difference = ResolvedDifference.none
    private var lastMade: LayerChange?
    private var madeBefore: [LayerChange] = []
    private let base: Layers
    private let context: ChangeContext

    init(on layers: Layers, _ context: ChangeContext) {
        self.layers = layers
        base = layers
        self.context = context
    }

    /// Whether a layer has changed.
    package var hasChanged: Bool { lastMade != nil }

    /// Why the snapshot with these changes is published.
    package var causes: [ChangeCause] {
        guard let lastMade else { return [] }
        return madeBefore.isEmpty ? [lastMade.cause] : (madeBefore.map(\.cause) + [lastMade.cause]).joined()
    }

    /// Applies a change.
    /// - Throws: as ``LayerChange/apply(to:_:)``; the batch is as before then.
    package mutating func apply(_ change: LayerChange) throws(ConfigError) -> Result {
        guard let effect = try change.apply(to: &layers, context(for: change)) else {
            return Result(layerChanged: false, hold: layers.holdRule, lifetime: nil)
        }
        if let lastMade { madeBefore.append(lastMade) }
        lastMade = change
        if context.recordsOperations, let operation = effect.operation { operations.append(operation) }
        if let end = effect.lifetime?.expiresAt, let path = change.path {
            newExpiries.append(ExpiringOverride(path: path, expiresAt: end))
        }
        if effect.restoresOverrides { restoresOverrides = true }
        difference.add(effect.difference)
        return Result(layerChanged: true, hold: layers.holdRule, lifetime: effect.lifetime)
    }

    /// What a change is judged by: what the layers resolve to, or resolved to before the batch if nothing else matters to it.
    private func context(for change: LayerChange) -> ChangeContext {
        guard let lastMade, let path = change.path, path.count > 1,
            lastMade.mayChangeContainers(above: path)
                || madeBefore.contains(where: { $0.mayChangeContainers(above: path) })
        else { return context }
        return ChangeContext(
            resolved: layers.resolved(), limits: context.limits, now: context.now,
            recordsOperations: context.recordsOperations)
    }

    /// Ends the batch: records the experiments, which follow from the other operations and from the settings, and the journal
    /// does not know the settings.
    package mutating func finish() {
        guard !operations.isEmpty, layers.experiment.overlays != base.experiment.overlays else { return }
        operations.append(.experiment(layers.experiment))
    }
}
