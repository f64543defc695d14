package import LarderJSON

/// What the layers of one moment have at a path, and since when.
package struct PathProvenance: Sendable {
    /// Since when a layer has had the same effect at the path, as far as that is known.
    package struct Since: Sendable, Hashable {
        /// The first snapshot with it.
        package var revision: Int
        /// When that snapshot was published, in milliseconds since 1970.
        package var at: Int
        /// Whether it may be older: the snapshots before are not known any more.
        package var orEarlier: Bool
    }

    package let revision: Int
    package let value: JSONValue?
    /// The layers as they are shown.
    package let layers: Layers
    /// What a rollback shows of them instead of the live documents; nil for nothing.
    package let hold: RollbackHold?
    private let effects: [ConfigLayer: (effect: PatchEffect, since: Since?)]

    /// Compares the layers with those of earlier snapshots. Documents may be large, so this runs away from every actor.
    /// - Parameter generations: the known snapshots with the current one, oldest first
    @concurrent
    package static func find(
        _ path: [String], in snapshot: ConfigSnapshot, of layers: Layers, after generations: [Generation]
    ) async -> PathProvenance {
        let shown = layers.shown
        let value = snapshot.value.value(at: JSONPath(path))
        let past = generations.reversed().flatMap(\.states)
        var effects: [ConfigLayer: (effect: PatchEffect, since: Since?)] = [:]
        for layer in ConfigLayer.allCases {
            let effect = shown.effect(of: layer, at: path)
            if effect == .unchanged { continue }
            // A null that was set makes no object on its way.
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

    /// What a layer does at the path.
    package func effect(of layer: ConfigLayer) -> PatchEffect { effects[layer]?.effect ?? .unchanged }

    /// Since when it does so; nil if it does nothing.
    package func since(_ layer: ConfigLayer) -> Since? { effects[layer]?.since }
}

/// The layers of a snapshot as they were published, or as they were made later without another snapshot.
private struct SnapshotState {
    var revision: Int
    var publishedAt: Int
    /// The layers as they are shown.
    var layers: Layers
    var isLater: Bool

    /// When a layer came to say what it says at a path.
    func time(_ layer: ConfigLayer, _ path: [String]) -> Int {
        if !isLater { return publishedAt }
        let own: Int? =
            switch layer {
            case .defaults: layers.defaults?.updatedAt
            case .host: layers.host?.updatedAt
            case .remote: layers.remote?.updatedAt
            case .experiment: layers.experiment.updatedAt
            case .override:
                layers.override.entries(around: path).map(\.setAt).max()
            }
        return max(own ?? publishedAt, publishedAt)
    }
}

extension Generation {
    /// Newest first.
    fileprivate var states: [SnapshotState] {
        func state(_ layers: Layers, isLater: Bool) -> SnapshotState {
            SnapshotState(revision: revision, publishedAt: publishedAt, layers: layers.shown, isLater: isLater)
        }
        guard let published else { return [state(layers, isLater: false)] }
        return [state(layers, isLater: true), state(published, isLater: false)]
    }
}

extension JSONValue {
    /// Whether it is null, or an object whose members have nothing but nulls.
    fileprivate var hasOnlyNulls: Bool {
        kind == .object ? members.allSatisfy { $0.value.hasOnlyNulls } : isNull
    }
}
