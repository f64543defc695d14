import LarderJSON

extension OverrideEntry {
    /// The effect that this entry has at a path.
    package func effect(at other: [String]) -> PatchEffect {
        let common = min(path.count, other.count)
        guard zip(path, other).allSatisfy({ $0.isSpelled(as: $1) }) else { return .unchanged }
        if path.count <= other.count { return value.effect(at: other[common...]) }
        return .value(path[common...].reversed().reduce(value) { .object([($1, $0)]) })
    }
}

extension Layers {
    /// The effect of a layer at a path. Must be called on the result of ``shown``, in which held layers replace the
    /// live ones.
    package func effect(of layer: ConfigLayer, at path: [String]) -> PatchEffect {
        switch layer {
        case .defaults, .host: layer.fileLayer.flatMap { self[$0] }?.content.effect(at: path) ?? .unchanged
        case .remote: remote?.content.effect(at: path) ?? .unchanged
        case .experiment: PatchEffect(experiment.overlays.map(\.values), at: path)
        case .override: override.effect(at: path)
        }
    }
}

extension OverrideLayer {
    /// The combined effect of all entries at a path.
    fileprivate func effect(at path: [String]) -> PatchEffect {
        let speakers = entries(around: path).filter { $0.effect(at: path) != .unchanged }
        if speakers.count < 2 { return speakers.first?.effect(at: path) ?? .unchanged }
        return PatchEffect(OverrideLayer(entries: speakers).patches(), at: path)
    }
}
