import LarderConfigModel

/// A difference between the last known good state and the state with which an agent would start.
enum StartChange: Equatable {
    /// The files of a layer have other content.
    case files(FileLayer)
    /// The settings have other locks or experiments.
    case rules
    /// The settings no longer have the source of the remote document.
    case remote
    /// These overrides have expired.
    case overrides([ExpiringOverride])

    /// All differences, in the order of their layers.
    static func all(since lastGood: Layers, in layers: Layers) -> [StartChange] {
        var changes = FileLayer.allCases.filter { layers[$0]?.content != lastGood[$0]?.content }.map(StartChange.files)
        if layers.remote == nil, lastGood.remote != nil { changes.append(.remote) }
        if layers.locks != lastGood.locks || layers.experiment.overlays != lastGood.experiment.overlays {
            changes.append(.rules)
        }
        let expired = expired(since: lastGood, in: layers)
        if !expired.isEmpty { changes.append(.overrides(expired)) }
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

    /// Makes this change in layers that contain this part of the last known good state.
    /// - Parameters:
    ///   - new: the layers with all changes
    ///   - now: in milliseconds since 1970
    func apply(to layers: inout Layers, from new: Layers, now: Int) {
        switch self {
        case .files(let layer): layers[layer] = new[layer]
        case .remote:
            layers.dropRemote()
            layers.applyRulesLeniently(layers.rules, now: now)
        case .rules: layers.applyRulesLeniently(new.rules, now: now)
        case .overrides(let expired):
            for override in expired { _ = layers.override.expire(override.path, expiringAt: override.expiresAt) }
        }
    }

    /// Whether the change leaves all layers below the overrides as they are.
    var concernsOnlyOverrides: Bool { if case .overrides = self { true } else { false } }

    /// The changes to try one by one if this change is invalid; nil if it has no parts.
    var parts: [StartChange]? {
        guard case .overrides(let expired) = self, expired.count > 1 else { return nil }
        return expired.map { .overrides([$0]) }
    }

    /// The change to retain if the schema refuses this one.
    func change(in new: Layers) -> LayerChange {
        switch self {
        case .files(let layer): .files(layer, new[layer]?.content ?? .empty)
        case .rules: .rules(new.rules)
        case .remote: .dropRemote
        case .overrides(let expired): .expireOverrides(expired)
        }
    }

    private static func expired(since lastGood: Layers, in layers: Layers) -> [ExpiringOverride] {
        lastGood.override.expiringEntries.compactMap { entry in
            guard let end = entry.expiresAt, layers.override.entry(at: entry.path)?.expiresAt != end else { return nil }
            return ExpiringOverride(path: entry.path, expiresAt: end)
        }
    }
}
