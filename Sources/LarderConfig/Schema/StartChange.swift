import LarderConfigModel

/// A difference between the last known good state and the state with which an agent would start.
enum StartChange: Equatable {
    /// The files of a layer have other content.
    case files(FileLayer)
    /// The settings have other locks or experiments.
    case rules
    /// The settings no longer have the source of the remote document.
    case remote
    /// Overrides have expired.
    case overrides

    /// All differences.
    static func all(since lastGood: Layers, in layers: Layers) -> [StartChange] {
        var changes = FileLayer.allCases.reversed().filter {
            layers[$0]?.content != lastGood[$0]?.content
        }.map(StartChange.files)
        if layers.locks != lastGood.locks || layers.experiment.overlays != lastGood.experiment.overlays {
            changes.append(.rules)
        }
        if layers.remote == nil, lastGood.remote != nil { changes.append(.remote) }
        if !expired(since: lastGood, in: layers).isEmpty { changes.append(.overrides) }
        return changes
    }

    /// Restores this part of the last known good state.
    func undo(in layers: inout Layers, _ lastGood: Layers) {
        switch self {
        case .files(let layer): layers[layer] = lastGood[layer]
        case .rules: (layers.rules, layers.experiment) = (lastGood.rules, lastGood.experiment)
        case .remote: (layers.remote, layers.hold) = (lastGood.remote, lastGood.hold)
        case .overrides: layers.override = lastGood.override
        }
    }

    /// The changes that replace this part of the last known good state by the new one.
    func changes(in layers: Layers, _ lastGood: Layers) -> [LayerChange] {
        switch self {
        case .files(let layer): [.files(layer, layers[layer]?.content ?? .empty)]
        case .rules: [.rules(layers.rules)]
        case .remote: [.dropRemote]
        case .overrides: Self.expired(since: lastGood, in: layers).map { .expireOverrides([$0]) }
        }
    }

    private static func expired(since lastGood: Layers, in layers: Layers) -> [ExpiringOverride] {
        lastGood.override.expiringEntries.compactMap { entry in
            guard let end = entry.expiresAt, layers.override.entry(at: entry.path)?.expiresAt != end else { return nil }
            return ExpiringOverride(path: entry.path, expiresAt: end)
        }
    }
}
