import LarderJSON

extension ConfigStore {
    /// What the store knows of a path, all of one moment.
    struct Testimony: Sendable {
        var revision: Int
        var value: JSONValue?
        /// The layers as they are shown.
        var layers: Layers
        /// What a rollback shows of them instead of what is live; nil for nothing.
        var hold: Hold?
        fileprivate var sayings: [ConfigLayer: (saying: PatchEffect, since: ConfigExplanation.Since?)] = [:]

        /// What a layer says at the path.
        func effect(of layer: ConfigLayer) -> PatchEffect { sayings[layer]?.saying ?? .unchanged }

        /// Since when it has said so; nil where it says nothing.
        func since(_ layer: ConfigLayer) -> ConfigExplanation.Since? { sayings[layer]?.since }
    }

    /// Tells what is known of a path.
    func testimony(of path: [String]) async -> Testimony {
        await readOlderGenerations()
        let testimony = Testimony(
            revision: snapshot.revision, value: snapshot.value.value(at: JSONPath(path)), layers: layers.shown,
            hold: layers.hold)
        return await Self.compare(testimony, with: history.generations, at: path)
    }

    /// Adds what each layer says, and since when. Away from the actor: documents may be large.
    @concurrent
    private static func compare(
        _ testimony: Testimony, with generations: [Generation], at path: [String]
    ) async -> Testimony {
        let past = generations.reversed().flatMap(\.states)
        var testimony = testimony
        for layer in ConfigLayer.allCases {
            let saying = testimony.layers.effect(of: layer, at: path)
            if saying == .unchanged { continue }
            // A null that was set makes no object on its way.
            if layer == .override, testimony.value?.kind != .object, case .value(let value) = saying,
                value.hasOnlyNulls
            {
                continue
            }
            let row = past.prefix { $0.layers.effect(of: layer, at: path) == saying }
            let since = row.last.map { first in
                ConfigExplanation.Since(
                    revision: first.revision, at: first.time(layer, path),
                    orEarlier: row.count == past.count && first.revision > 1)
            }
            testimony.sayings[layer] = (saying, since)
        }
        return testimony
    }
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
