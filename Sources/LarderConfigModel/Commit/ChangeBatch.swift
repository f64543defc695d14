import LarderJSON

/// Changes that are committed together. Each change is applied to the result of the changes before it.
package struct ChangeBatch: Sendable {
    /// The result of one change.
    package struct Result: Sendable {
        package let layerChanged: Bool
        /// The rule of the rollback hold after the change; nil if there is no hold.
        package let hold: HoldRule?
        /// The lifetime of the override that was set; nil for other changes.
        package let lifetime: OverrideLifetime?
    }

    /// The layers with all changes applied.
    package private(set) var layers: Layers
    /// The operations for the journal; empty if it records none of this batch.
    package private(set) var operations: [LayerOperation] = []
    /// The expiring overrides that were set. If ``restoresOverrides`` is true, restored overrides may expire too.
    package private(set) var newExpiries: [ExpiringOverride] = []
    /// Whether a change restored overrides that had been replaced or removed.
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

    /// The causes of the snapshot that contains these changes.
    package var causes: [ChangeCause] {
        guard let lastMade else { return [] }
        return madeBefore.isEmpty ? [lastMade.cause] : (madeBefore.map(\.cause) + [lastMade.cause]).joined()
    }

    /// Applies a change.
    /// - Throws: The errors of ``LayerChange/apply(to:_:)``; the batch is unchanged then.
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

    /// The context in which a change is checked. It has the configuration before the batch, unless an earlier change of
    /// the batch can affect the check. Only then the layers are resolved again.
    private func context(for change: LayerChange) -> ChangeContext {
        guard let lastMade, let path = change.path, path.count > 1,
            lastMade.mayChangeContainers(above: path)
                || madeBefore.contains(where: { $0.mayChangeContainers(above: path) })
        else { return context }
        return ChangeContext(
            resolved: layers.resolved(), limits: context.limits, now: context.now,
            recordsOperations: context.recordsOperations)
    }

    /// Ends the batch. If the journal records the batch and the experiments have changed, this adds them to the
    /// operations: a replay cannot compute them, because it does not have the settings.
    package mutating func finish() {
        guard !operations.isEmpty, layers.experiment.overlays != base.experiment.overlays else { return }
        operations.append(.experiment(layers.experiment))
    }
}
