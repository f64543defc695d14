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
        /// The new number at the path of an increment; nil for other changes.
        package var number: Int?
    }

    /// The layers with all changes applied.
    package private(set) var layers: Layers
    /// The operations for the journal; empty if it records none of this batch.
    package private(set) var operations: [LayerOperation] = []
    /// The overrides with an expiry that the batch has set. Restored overrides are not included, although they may
    /// expire; see ``restoresOverrides``.
    package private(set) var newExpiries: [ExpiringOverride] = []
    /// Whether a change restored overrides that had been replaced or removed.
    package private(set) var restoresOverrides = false
    private(set) var difference = ResolvedDifference.none
    private var lastMade: LayerChange?
    private var madeBefore: [LayerChange] = []
    /// The configuration after the changes so far; nil if it has not been resolved since the last change.
    private var resolved: JSONValue?
    private let base: Layers
    private let context: ChangeContext

    init(on layers: Layers, _ context: ChangeContext) {
        self.layers = layers
        base = layers
        self.context = context
    }

    /// Whether any change of the batch has changed a layer.
    package var hasChanged: Bool { lastMade != nil }

    /// The causes of the snapshot that contains these changes.
    package var causes: [ChangeCause] {
        guard let lastMade else { return [] }
        return madeBefore.isEmpty ? [lastMade.cause] : (madeBefore.map(\.cause) + [lastMade.cause]).joined()
    }

    /// The only path at which the resolved configuration can have changed; nil if it can have changed at several paths.
    package var changedPath: [String]? {
        guard let lastMade, madeBefore.isEmpty else { return nil }
        switch lastMade.unconditional {
        case .set(let path, _, _, _), .unset(let path, _), .increment(let path, _, _): return path
        default: return nil
        }
    }

    /// Applies a change.
    /// - Throws: `conflict` if the condition of the change does not hold, and the errors of
    ///   ``LayerChange/apply(to:_:)``; the batch is unchanged then.
    package mutating func apply(_ change: LayerChange) throws(ConfigError) -> Result {
        guard case .requested(let requested, let terms) = change else {
            return try apply(change, recordedAs: change, because: nil)
        }
        if let condition = terms.condition { try check(condition) }
        return try apply(requested, recordedAs: change, because: terms.reason)
    }

    /// - Parameter recorded: the change as the history records it
    private mutating func apply(
        _ change: LayerChange, recordedAs recorded: LayerChange, because reason: String?
    ) throws(ConfigError) -> Result {
        switch change {
        case .increment(let path, let step, let peer):
            let sum = try step.sum(with: value(at: path), at: path)
            let end = layers.override.entry(at: path)?.expiresAt
            let set = LayerChange.set(
                path: path, value: .int(sum), timeToLive: end.map { .milliseconds(max(1, $0 - context.now)) }, by: peer)
            var result = try applyOne(set, recordedAs: recorded, because: reason)
            result.number = sum
            return result
        case .several(let changes, _):
            // The changes are applied to a copy, so that this batch stays as it is if one of them is refused.
            var next = self
            var hasChanged = false
            for change in changes {
                let result = try next.applyOne(change, recordedAs: change, because: reason)
                hasChanged = hasChanged || result.layerChanged
            }
            if hasChanged {
                (next.madeBefore, next.lastMade) = (madeBefore, lastMade)
                next.record(recorded)
                self = next
            }
            return Result(layerChanged: hasChanged, hold: layers.holdRule, lifetime: nil)
        default: return try applyOne(change, recordedAs: recorded, because: reason)
        }
    }

    private mutating func record(_ change: LayerChange) {
        if let lastMade { madeBefore.append(lastMade) }
        lastMade = change
    }

    private mutating func applyOne(
        _ change: LayerChange, recordedAs recorded: LayerChange, because reason: String?
    ) throws(ConfigError) -> Result {
        let context = context(for: change, because: reason)
        guard let effect = try change.apply(to: &layers, context) else {
            return Result(layerChanged: false, hold: layers.holdRule, lifetime: nil)
        }
        record(recorded)
        resolved = nil
        if context.recordsOperations, let operation = effect.operation { operations.append(operation) }
        if let end = effect.lifetime?.expiresAt, let path = change.path {
            newExpiries.append(ExpiringOverride(path: path, expiresAt: end))
        }
        if effect.restoresOverrides { restoresOverrides = true }
        difference.add(effect.difference)
        return Result(layerChanged: true, hold: layers.holdRule, lifetime: effect.lifetime)
    }

    /// The context for the check of a change. It contains the configuration before the batch. If an earlier change of
    /// the batch can affect the check, it contains the current configuration instead, for which the layers are resolved
    /// again.
    private mutating func context(for change: LayerChange, because reason: String?) -> ChangeContext {
        var context = context
        context.reason = reason
        if let lastMade, let path = change.path, path.count > 1,
            lastMade.mayChangeContainers(above: path)
                || madeBefore.contains(where: { $0.mayChangeContainers(above: path) })
        {
            context.resolved = resolvedNow()
        }
        return context
    }

    // MARK: Conditions

    /// Compares the state after the changes so far with the condition of the next one.
    /// - Throws: `conflict`.
    private mutating func check(_ condition: ChangeCondition) throws(ConfigError) {
        if let revision = condition.revision {
            if let epoch = condition.epoch, epoch != context.epoch {
                throw ConfigError(
                    conflictAt: nil, "the current epoch is not \"\(epoch)\"; read the configuration again, then retry")
            }
            guard revision == context.revision, !hasChangedResolved() else {
                throw ConfigError(
                    conflictAt: nil, "the current revision is not \(revision); read the configuration again, then retry"
                )
            }
        }
        for comparison in condition.comparisons {
            let current = value(at: comparison.path)
            if current == comparison.expected { continue }
            let problem =
                comparison.expected == nil
                ? "there is a value at" : current == nil ? "there is no value at" : "there is another value at"
            let place = comparison.path.isEmpty ? "the root" : "\"\(JSONPath(comparison.path))\""
            throw ConfigError(
                conflictAt: comparison.path, "\(problem) \(place); read the configuration again, then retry")
        }
    }

    /// Whether the configuration after the changes so far differs from the current snapshot. If it does not, the
    /// snapshot keeps its revision.
    private mutating func hasChangedResolved() -> Bool {
        guard hasChanged else { return false }
        if case .scalar(_, differs: true) = difference { return true }
        return resolvedNow() != context.resolved
    }

    /// The value at a path after the changes so far; nil for none. The layers are resolved only if a change of this
    /// batch can have changed the value and no override sets a scalar at the path.
    private mutating func value(at path: [String]) -> JSONValue? {
        guard let lastMade else { return context.resolved.value(at: JSONPath(path)) }
        // Overrides are the highest layer, so this is the resolved value unless a lock hides it.
        if let scalar = layers.override.scalar(at: path), layers.locks.touched(by: scalar, at: path) == nil {
            return scalar
        }
        let mayDiffer =
            lastMade.mayChangeValue(at: path) || madeBefore.contains { $0.mayChangeValue(at: path) }
        return (mayDiffer ? resolvedNow() : context.resolved).value(at: JSONPath(path))
    }

    private mutating func resolvedNow() -> JSONValue {
        if let resolved { return resolved }
        let now = layers.resolved()
        resolved = now
        return now
    }

    /// Ends the batch. If the journal records the batch and the experiments have changed, this adds them to the
    /// operations: a replay cannot compute them, because it does not have the settings.
    package mutating func finish() {
        guard !operations.isEmpty, layers.experiment.overlays != base.experiment.overlays else { return }
        operations.append(.experiment(layers.experiment))
    }
}
