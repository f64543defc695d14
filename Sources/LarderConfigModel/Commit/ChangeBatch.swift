import LarderJSON

/// Changes that are committed together, and the steps of their commit that perform no I/O: each change is applied to the
/// result of the changes before it (``add(_:)``), the layers are resolved (``resolve()``), and ``committed(with:)``
/// returns the state to write and to publish.
package struct ChangeBatch: Sendable {
    /// The state that the changes are applied to.
    package let base: CommittedState
    /// The layers with all changes applied.
    package private(set) var layers: Layers
    /// The result of each change that was added, in the order of the changes.
    package private(set) var results: [Result<ChangeResult, ConfigError>] = []
    /// Whether a client requested one of the changes that were made, or that the layers already had.
    package private(set) var comesFromClient = false
    /// Whether the changes leave all layers below the overrides as they are.
    package private(set) var concernsOnlyOverrides = true
    /// Whether a change failed or was rejected.
    package private(set) var hasFailures = false
    /// The number of changes that the schema has rejected.
    package private(set) var rejections = 0
    /// The overrides with an expiry that the batch has set. Restored overrides are not included, although they may
    /// expire; see ``restoresOverrides``.
    package private(set) var newExpiries: [ExpiringOverride] = []
    /// Whether a change restored overrides that had been replaced or removed.
    package private(set) var restoresOverrides = false
    private var made: [LayerOperation] = []
    private var difference = ResolvedDifference.none
    private var lastMade: LayerChange?
    private var madeBefore: [LayerChange] = []
    /// The number of single changes in ``madeBefore``: each of several that were made together counts.
    private var singlesBefore = 0
    /// The places that the first of the changes made so far can have changed; nil for none. Most batches do not need it,
    /// and copies of nil cost no reference counting.
    private var places: ChangedPlaces?
    /// The configuration after the changes so far; nil if it has not been resolved since the last change.
    private var resolved: JSONValue?
    private let context: ChangeContext

    package init(on base: CommittedState, _ context: ChangeContext) {
        self.base = base
        self.context = context
        layers = base.layers
    }

    /// Whether any change of the batch has changed a layer.
    package var hasChanged: Bool { lastMade != nil }

    /// The number of changes that have changed a layer.
    package var changeCount: Int { madeBefore.count + (hasChanged ? 1 : 0) }

    /// Whether the batch has set or restored overrides that may expire.
    package var changesExpiries: Bool { restoresOverrides || !newExpiries.isEmpty }

    /// The operations for the journal; empty if it records none of this batch. If the experiments have changed, the last
    /// operation replaces them: a replay cannot compute them, because it does not have the settings.
    package var operations: [LayerOperation] {
        if made.isEmpty || layers.experiment.overlays == base.layers.experiment.overlays { return made }
        return made + [.experiment(layers.experiment)]
    }

    /// The time of the batch, in milliseconds since 1970.
    package var now: Int { context.now }

    /// The causes of the snapshot that contains these changes.
    package var causes: [ChangeCause] {
        guard let lastMade else { return [] }
        return madeBefore.isEmpty ? [lastMade.cause] : (madeBefore.map(\.cause) + [lastMade.cause]).joined()
    }

    // MARK: Apply

    /// Applies a change, and records the result. The batch is otherwise unchanged if the change fails.
    package mutating func add(_ change: LayerChange) {
        do throws(ConfigError) {
            results.append(.success(try apply(change)))
        } catch {
            fail(error)
        }
    }

    /// Records that a change is not part of the batch, because the schema rejects it.
    /// - Parameter problems: at least one
    package mutating func reject(_ problems: [SchemaProblem]) {
        fail(ConfigError(problems))
        rejections += 1
    }

    private mutating func fail(_ error: ConfigError) {
        results.append(.failure(error))
        hasFailures = true
    }

    /// Applies a change.
    /// - Throws: `conflict` if the condition of the change does not hold, and the errors of
    ///   ``LayerChange/apply(to:_:resolved:because:)``; the batch is unchanged then.
    package mutating func apply(_ change: LayerChange) throws(ConfigError) -> ChangeResult {
        let result: ChangeResult
        if case .requested(let requested, let terms) = change {
            if let condition = terms.condition { try check(condition) }
            result = try apply(requested, recordedAs: change, because: terms.reason)
        } else {
            result = try apply(change, recordedAs: change, because: nil)
        }
        if change.comesFromClient { comesFromClient = true }
        if !change.concernsOnlyOverrides { concernsOnlyOverrides = false }
        return result
    }

    /// - Parameter recorded: the change as the history records it
    private mutating func apply(
        _ change: LayerChange, recordedAs recorded: LayerChange, because reason: String?
    ) throws(ConfigError) -> ChangeResult {
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
            // The changes are applied to a copy, so that this batch stays as it is if one of them is rejected.
            var next = self
            // Only the copy has the places, so that it extends them without copying them. If changes are not made, their
            // places stay among them, which is harmless: the places are those that can have changed.
            places = nil
            let count = changeCount
            defer { places = next.places?.limited(to: count) }
            var hasChanged = false
            for change in changes {
                let result = try next.applyOne(change, recordedAs: change, because: reason)
                hasChanged = hasChanged || result.layerChanged
            }
            if hasChanged {
                (next.madeBefore, next.singlesBefore, next.lastMade) = (madeBefore, singlesBefore, lastMade)
                next.record(recorded)
                self = next
            }
            return ChangeResult(layerChanged: hasChanged, hold: layers.holdRule, lifetime: nil)
        default: return try applyOne(change, recordedAs: recorded, because: reason)
        }
    }

    private mutating func record(_ change: LayerChange) {
        if let lastMade {
            madeBefore.append(lastMade)
            singlesBefore += lastMade.singleCount
        }
        lastMade = change
    }

    private mutating func applyOne(
        _ change: LayerChange, recordedAs recorded: LayerChange, because reason: String?
    ) throws(ConfigError) -> ChangeResult {
        let current = configuration(forCheckOf: change)
        guard let effect = try change.apply(to: &layers, context, resolved: current, because: reason) else {
            return ChangeResult(layerChanged: false, hold: layers.holdRule, lifetime: nil)
        }
        record(recorded)
        resolved = nil
        if context.recordsOperations, let operation = effect.operation { made.append(operation) }
        if let end = effect.lifetime?.expiresAt, let path = change.path {
            newExpiries.append(ExpiringOverride(path: path, expiresAt: end))
        }
        if effect.restoresOverrides { restoresOverrides = true }
        difference.add(effect.difference)
        return ChangeResult(layerChanged: true, hold: layers.holdRule, lifetime: effect.lifetime)
    }

    /// The configuration for the check of a change: the one before the batch or, if an earlier change of the batch can
    /// affect the check, the current one, for which the layers are resolved again around the path of the change.
    private mutating func configuration(forCheckOf change: LayerChange) -> JSONValue {
        guard lastMade != nil, let path = change.path, path.count > 1, mayHaveChangedContainers(above: path) else {
            return base.snapshot.value
        }
        return resolvedNow(around: path)
    }

    /// Whether a change of the batch can have turned a value above `path` into an array, or an array there into something
    /// else.
    private mutating func mayHaveChangedContainers(above path: [String]) -> Bool {
        guard let lastMade else { return false }
        if singlesBefore + lastMade.singleCount < Self.manyChanges {
            return lastMade.mayChangeContainers(above: path)
                || madeBefore.contains { $0.mayChangeContainers(above: path) }
        }
        return withPlaces { $0.mayHaveChangedContainers(above: path) }
    }

    /// Whether a change of the batch can have changed the resolved value at `path`.
    private mutating func mayHaveChangedValue(at path: [String]) -> Bool {
        guard let lastMade else { return false }
        if singlesBefore + lastMade.singleCount < Self.manyChanges {
            return lastMade.mayChangeValue(at: path) || madeBefore.contains { $0.mayChangeValue(at: path) }
        }
        return withPlaces { $0.mayHaveChangedValue(at: path) }
    }

    /// The number of changes from which they are indexed. Comparing each change with all changes before it would take time
    /// proportional to the square of their number.
    private static let manyChanges = 16

    /// Calls `body` with the places that all changes so far can have changed.
    private mutating func withPlaces(_ body: (ChangedPlaces) -> Bool) -> Bool {
        // Without another owner, the places are extended without a copy.
        var places = self.places.take() ?? ChangedPlaces()
        for change in madeBefore[min(places.count, madeBefore.count)...] { places.add(change) }
        if let lastMade, places.count == madeBefore.count { places.add(lastMade) }
        defer { self.places = places }
        return body(places)
    }

    // MARK: Conditions

    /// Compares the state after the changes so far with the condition of the next one.
    /// - Throws: `conflict`.
    private mutating func check(_ condition: ChangeCondition) throws(ConfigError) {
        if let revision = condition.revision {
            if let epoch = condition.epoch, epoch != base.epoch {
                throw ConfigError(
                    conflictAt: nil,
                    "the current epoch is not \"\(epoch)\"; read the configuration again, and make the change anew")
            }
            guard revision == base.snapshot.revision, !hasChangedResolved() else {
                throw ConfigError(
                    conflictAt: nil,
                    "the current revision is not \(revision); read the configuration again, and make the change anew"
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
                conflictAt: comparison.path,
                "\(problem) \(place); read the configuration again, and make the change anew")
        }
    }

    /// Whether the configuration after the changes so far differs from the current snapshot. If it does not, the
    /// snapshot keeps its revision.
    private mutating func hasChangedResolved() -> Bool {
        guard hasChanged else { return false }
        if case .scalar(_, differs: true) = difference { return true }
        return resolvedNow() != base.snapshot.value
    }

    /// The value at a path after the changes so far; nil for none. The layers are resolved only if a change of this
    /// batch can have changed the value and no override sets a scalar at the path.
    private mutating func value(at path: [String]) -> JSONValue? {
        guard hasChanged else { return base.snapshot.value.value(at: JSONPath(path)) }
        // Overrides are the highest layer, so this is the resolved value unless a lock hides it.
        if let scalar = layers.override.scalar(at: path), layers.locks.touched(by: scalar, at: path) == nil {
            return scalar
        }
        let current = mayHaveChangedValue(at: path) ? resolvedNow(around: path) : base.snapshot.value
        return current.value(at: JSONPath(path))
    }

    /// The configuration after the changes so far, of which only the values at and above `path` are needed.
    private mutating func resolvedNow(around path: [String]) -> JSONValue {
        if let resolved { return resolved }
        return path.isEmpty || layers.hasLocks ? resolvedNow() : layers.resolved(around: path)
    }

    private mutating func resolvedNow() -> JSONValue {
        if let resolved { return resolved }
        let now = layers.resolved()
        resolved = now
        return now
    }

    // MARK: Resolve

    /// Resolves the layers, on any thread. If only scalars have changed, this edits the current value. Otherwise it
    /// merges all layers.
    package func resolve() -> Resolution {
        let current = base.snapshot
        if current.revision > 0 {
            if !hasChanged { return unchanged }
        } else if !context.mayPublishEmpty, layers.isEmpty {
            return unchanged
        }
        // If the order of members in the snapshot is not that of the resolved layers, an edited copy of the snapshot
        // would keep the wrong order.
        let difference = current.contentDigest === base.resolvedDigest ? difference : .any
        var edited = difference.replacements.flatMap {
            isRemoteDocument ? layers.remote?.document : current.value.replacing($0)
        }
        var isReal = false
        // A remote document without other layers is shared, not copied.
        if case .paths(let paths) = difference, base.isExpensive, current.revision > 0, !layers.isRemoteAlone,
            let changed = layers.resolved(editing: current.value, of: base.layers, at: paths)
        {
            edited = changed.value
            isReal = changed.differs
        }
        let value = edited ?? layers.resolvedSharing()
        assert(
            edited == nil || value.compactText == layers.resolved().compactText,
            "the edited snapshot differs from the merged layers")
        // The texts of the new and the current value are compact, so equal values have texts of equal size.
        let isSame =
            current.revision > 0 && value.textSize == current.bytes && !isReal
            && !difference.isReal(in: current.value) && value == current.value
        if isSame {
            let digest = value.hasSameText(as: current.value) ? current.contentDigest : SnapshotDigest(of: value)
            return Resolution(snapshot: nil, digest: digest)
        }
        // Otherwise the generations of large documents could retain many of them.
        if base.resolvedDigest.isLarge { _ = base.resolvedDigest.text }
        let next = ConfigSnapshot(
            value: value, revision: base.numbering.next(after: current.revision), publishedAt: context.now)
        return Resolution(snapshot: next, digest: next.contentDigest)
    }

    /// Does the work of ``resolve()`` on another thread, for large configurations.
    @concurrent
    package func resolveConcurrently() async -> Resolution { resolve() }

    /// The resolution if the current snapshot stays.
    package var unchanged: Resolution { Resolution(snapshot: nil, digest: base.resolvedDigest) }

    /// Whether the value of the current snapshot is the remote document itself, not a copy. This is so if no other layer
    /// has content, neither before nor after the changes.
    private var isRemoteDocument: Bool {
        base.layers.sharesRemoteDocument(with: base.snapshot.value) && base.layers.isRemoteAlone && layers.isRemoteAlone
    }

    // MARK: Commit

    /// The state after the commit of this batch, and the write that must be on disk before the state is published. The
    /// layers are replaced even if none has changed, because the remote document may have a new validator.
    package func committed(with resolution: Resolution) -> (state: CommittedState, write: RequiredWrite) {
        let (snapshot, last, isNew) = (resolution.snapshot ?? base.snapshot, base.generation, resolution.isNew)
        var numbering = base.numbering
        let write = numbering.write(
            before: snapshot.revision, isNew: isNew, writesJournal: comesFromClient && !made.isEmpty)
        numbering.wrote(write, publishing: snapshot.revision)
        let published =
            isNew || snapshot.revision == 0 ? nil : hasChanged ? last.publishedLayers : last.published
        let generation = Generation(
            revision: snapshot.revision, digest: resolution.digest, publishedAt: snapshot.publishedAt,
            journalSequence: numbering.journalSequence, released: numbering.settledBound, bytes: snapshot.bytes,
            causes: isNew ? causes : last.causes, layers: layers, published: published)
        return (CommittedState(generation, snapshot, numbering, epoch: base.epoch), write)
    }
}

/// The places that changes can have changed. It answers the same questions as ``LayerChange/mayChangeValue(at:)`` and
/// ``LayerChange/mayChangeContainers(above:)``, for many changes at once.
private struct ChangedPlaces {
    /// The number of changes that were added.
    private(set) var count = 0
    /// The paths of values that were set.
    private var paths = NameTree()
    /// The top-level names below which anything can have changed.
    private var names: Set<ExactText> = []
    private var isAny = false

    mutating func add(_ change: LayerChange) {
        count += 1
        note(change)
    }

    private mutating func note(_ change: LayerChange) {
        switch change {
        case .set(let path, _, _, _), .increment(let path, _, _): paths.insert(path[...])
        case .unset(let path, _):
            if let name = path.first { names.insert(ExactText(name)) } else { isAny = true }
        case .expireOverrides, .files, .rules, .dropRemote, .remote, .rollback, .release: isAny = true
        case .recheck: break
        case .several(let changes, _): for change in changes { note(change) }
        case .requested(let change, _): note(change)
        }
    }

    /// These places, from now on as those of the first changes only.
    consuming func limited(to count: Int) -> ChangedPlaces {
        self.count = min(self.count, count)
        return self
    }

    /// - Parameter path: at least two names
    func mayHaveChangedContainers(above path: [String]) -> Bool {
        isAny || names.contains(ExactText(path[0])) || paths.includes(path.dropLast())
    }

    func mayHaveChangedValue(at path: [String]) -> Bool {
        guard let name = path.first else { return count > 0 }
        return isAny || names.contains(ExactText(name)) || paths.touches(path[...])
    }
}

extension LayerChange {
    /// The number of changes that this one makes together.
    fileprivate var singleCount: Int {
        switch self {
        case .several(let changes, _): changes.count
        case .requested(let change, _): change.singleCount
        default: 1
        }
    }
}

/// The result of applying one change.
package struct ChangeResult: Sendable {
    package let layerChanged: Bool
    /// The rule of the rollback hold after the change; nil if there is no hold.
    package let hold: HoldRule?
    /// The lifetime of the override that was set; nil for other changes.
    package let lifetime: OverrideLifetime?
    /// The new number at the path of an increment; nil for other changes.
    package var number: Int?
}

/// The result of resolving the layers.
package struct Resolution: Sendable {
    /// The next snapshot; nil if the current one stays, because the value has not changed.
    package let snapshot: ConfigSnapshot?
    /// The digest of the resolved layers. It differs from the digest of the snapshot if only the order of members has
    /// changed, because the current snapshot then stays.
    package let digest: SnapshotDigest

    /// Whether a snapshot is to be published.
    package var isNew: Bool { snapshot != nil }
}

extension ResolvedDifference {
    /// Whether a replacement shows that the new value differs from the current one, so that the whole values need not be
    /// compared. Of several replacements, only the last one is checked, because no later one can undo it.
    fileprivate func isReal(in current: JSONValue) -> Bool {
        switch self {
        case .none, .paths, .any: return false
        case .scalar(_, let differs): return differs
        case .scalars(let replacements):
            guard let last = replacements.last else { return false }
            return current.value(at: JSONPath(last.path)) != last.value
        }
    }
}

/// The result of a committed change.
package struct CommitOutcome: Sendable, Hashable {
    /// The revision of the snapshot that contains the change.
    package var revision: Int
    /// Whether this change has changed its layer, and its batch was published as a new snapshot. The snapshot may be
    /// new only because of another change of the same batch.
    package var changed: Bool
    /// Whether this change has changed its layer.
    package var layerChanged: Bool
    /// The rule of the rollback hold after the change; nil if there is no hold.
    package var hold: HoldRule?
    /// The lifetime of the override that was set; nil for other changes.
    package var lifetime: OverrideLifetime?
    /// The new number at the path of an increment; nil for other changes.
    package var number: Int?

    /// Whether a rollback hold is in effect after the change.
    package var isHeld: Bool { hold != nil }

    package init(
        revision: Int, changed: Bool, layerChanged: Bool, hold: HoldRule? = nil, lifetime: OverrideLifetime? = nil,
        number: Int? = nil
    ) {
        self.revision = revision
        self.changed = changed
        self.layerChanged = layerChanged
        self.hold = hold
        self.lifetime = lifetime
        self.number = number
    }
}
