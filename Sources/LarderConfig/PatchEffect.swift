import LarderJSON

/// What a merge patch (RFC 7396), or a layer of several, has to say at a path.
enum PatchEffect: Equatable {
    /// Nothing: what was there stays.
    case unchanged
    /// A value, which replaces what was there or merges with it.
    case value(JSONValue)
    /// That nothing is there: a null at the path or above it, or above it something that has no members.
    case removed

    /// What two say one after the other.
    func then(_ next: PatchEffect) -> PatchEffect {
        switch (self, next) {
        case (_, .unchanged): self
        case (.value(let first), .value(let second)): .value(MergePatch.compose(first, second))
        case (_, .removed), (_, .value): next
        }
    }
}

extension JSONValue {
    /// What the value says at a path, as a merge patch.
    func effect(at path: some Collection<String>) -> PatchEffect {
        guard let name = path.first else { return isNull ? .removed : .value(self) }
        switch kind {
        case .object: return self[name]?.effect(at: path.dropFirst()) ?? .unchanged
        case .array: return value(at: JSONPath(Array(path))).map(PatchEffect.value) ?? .removed
        case .null, .bool, .number, .string: return .removed
        }
    }
}

extension PatchEffect {
    /// What patches say that are applied one after the other.
    init(_ patches: [JSONValue], at path: [String]) {
        self = patches.reduce(.unchanged) { $0.then($1.effect(at: path)) }
    }
}

extension ComposedPatch {
    /// What both parts together say at a path.
    func effect(at path: [String]) -> PatchEffect { PatchEffect(patches, at: path) }
}

extension OverrideLayer.Entry {
    /// What the entry says at a path.
    func effect(at other: [String]) -> PatchEffect {
        let common = min(path.count, other.count)
        guard zip(path, other).allSatisfy({ $0.isSpelled(as: $1) }) else { return .unchanged }
        if path.count <= other.count { return value.effect(at: other[common...]) }
        return .value(path[common...].reversed().reduce(value) { .object([($1, $0)]) })
    }
}

extension Layers {
    /// What a layer says at a path. To be asked of layers as they are shown.
    func effect(of layer: ConfigLayer, at path: [String]) -> PatchEffect {
        switch layer {
        case .defaults: defaults?.content.effect(at: path) ?? .unchanged
        case .host: host?.content.effect(at: path) ?? .unchanged
        case .remote: remote?.content.effect(at: path) ?? .unchanged
        case .experiment: PatchEffect(experiment.overlays.map(\.values), at: path)
        case .override: override.effect(at: path)
        }
    }
}

extension OverrideLayer {
    /// What all entries together say at a path.
    fileprivate func effect(at path: [String]) -> PatchEffect {
        let speakers = entries(around: path).filter { $0.effect(at: path) != .unchanged }
        if speakers.count < 2 { return speakers.first?.effect(at: path) ?? .unchanged }
        return PatchEffect(OverrideLayer(entries: speakers).patches(), at: path)
    }
}
