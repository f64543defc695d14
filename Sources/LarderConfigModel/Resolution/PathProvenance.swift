package import LarderJSON

/// The effect of each layer at a path, and when each effect began.
package struct PathProvenance: Sendable {
    /// When a layer's effect at the path began, as far as known.
    package struct Since: Sendable, Hashable {
        /// The revision of the first snapshot with the effect.
        package var revision: Int
        /// When the effect began, in milliseconds since 1970: the publication of that snapshot, or a later change of
        /// the layer that published nothing.
        package var at: Int
        /// Whether the effect may be older, because earlier snapshots are no longer known.
        package var orEarlier: Bool
    }

    package let revision: Int
    package let value: JSONValue?
    /// The layers as they are shown; see ``Layers/shown``.
    package let layers: Layers
    /// The hold of a rollback; nil for none.
    package let hold: RollbackHold?
    private let effects: [ConfigLayer: (effect: PatchEffect, since: Since?)]

    /// Finds the effects, and compares them with those in earlier snapshots. It runs off every actor, because documents
    /// may be large.
    /// - Parameter generations: the known snapshots, including the current one, oldest first
    @concurrent
    package static func find(
        _ path: [String], in snapshot: ConfigSnapshot, of layers: Layers, after generations: [Generation]
    ) async -> PathProvenance {
        let shown = layers.shown
        // At revision 0 nothing is published, so there is no value, not even at the root.
        let value = snapshot.revision > 0 ? snapshot.value.value(at: JSONPath(path)) : nil
        let past = generations.reversed().flatMap(\.states)
        var effects: [ConfigLayer: (effect: PatchEffect, since: Since?)] = [:]
        for layer in ConfigLayer.allCases {
            let effect = shown.effect(of: layer, at: path)
            if effect == .unchanged { continue }
            // Unlike a null in a merge patch, a null override does not create objects at the ancestors of its path.
            if layer == .override, value?.kind != .object, case .value(let value) = effect, value.hasOnlyNulls {
                continue
            }
            let row = past.prefix { $0.layers.effect(of: layer, at: path) == effect }
            let since = row.last.map { first in
                Since(
                    revision: first.revision, at: first.time(layer, path),
                    orEarlier: row.count == past.count && first.revision > 1)
            }
            effects[layer] = (effect, since)
        }
        return PathProvenance(
            revision: snapshot.revision, value: value, layers: shown, hold: layers.hold, effects: effects)
    }

    /// The effect of a layer at the path.
    package func effect(of layer: ConfigLayer) -> PatchEffect { effects[layer]?.effect ?? .unchanged }

    /// When that effect began; nil if the layer has no effect, or if the time is not known.
    package func since(_ layer: ConfigLayer) -> Since? { effects[layer]?.since }
}

/// The layers of a snapshot, either as they were published or as they were changed later without another snapshot.
private struct SnapshotState {
    var revision: Int
    var publishedAt: Int
    /// The layers as they are shown.
    var layers: Layers
    var isLater: Bool

    /// When the effect of a layer at a path began, in milliseconds since 1970.
    func time(_ layer: ConfigLayer, _ path: [String]) -> Int {
        if !isLater { return publishedAt }
        let own: Int? =
            switch layer {
            case .defaults, .host: layer.fileLayer.flatMap { layers[$0] }?.updatedAt
            case .remote: layers.remote?.updatedAt
            case .experiment: layers.experiment.updatedAt
            case .override:
                layers.override.entries(around: path).map(\.setAt).max()
            }
        return max(own ?? publishedAt, publishedAt)
    }
}

extension Generation {
    /// The layers of this snapshot as they were published. If they have changed since then without a new snapshot, the
    /// changed layers come first.
    fileprivate var states: [SnapshotState] {
        func state(_ layers: Layers, isLater: Bool) -> SnapshotState {
            SnapshotState(revision: revision, publishedAt: publishedAt, layers: layers.shown, isLater: isLater)
        }
        guard let published else { return [state(layers, isLater: false)] }
        return [state(layers, isLater: true), state(published, isLater: false)]
    }
}

extension JSONValue {
    /// Whether this is null, or an object in which all values are null.
    fileprivate var hasOnlyNulls: Bool {
        kind == .object ? members.allSatisfy { $0.value.hasOnlyNulls } : isNull
    }
}
