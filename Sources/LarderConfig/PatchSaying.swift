import LarderJSON

/// What a merge patch (RFC 7396), or a layer of several, has to say at a path.
enum PatchSaying: Equatable {
    /// Nothing: what was there stays.
    case nothing
    /// A value, which replaces what was there or merges with it.
    case value(JSONValue)
    /// That nothing is there: a null at the path or above it, or above it something that has no members.
    case hides

    /// What two say one after the other.
    func then(_ next: PatchSaying) -> PatchSaying {
        switch (self, next) {
        case (_, .nothing): self
        case (.value(let first), .value(let second)): .value(MergePatch.compose(first, second))
        case (_, .hides), (_, .value): next
        }
    }
}

extension JSONValue {
    /// What the value says at a path, as a merge patch.
    func says(at path: some Collection<String>) -> PatchSaying {
        guard let name = path.first else { return isNull ? .hides : .value(self) }
        switch kind {
        case .object: return self[name]?.says(at: path.dropFirst()) ?? .nothing
        case .array: return value(at: JSONPath(Array(path))).map(PatchSaying.value) ?? .hides
        case .null, .bool, .number, .string: return .hides
        }
    }
}

extension PatchSaying {
    /// What patches say that are applied one after the other.
    init(_ patches: [JSONValue], at path: [String]) {
        self = patches.reduce(.nothing) { $0.then($1.says(at: path)) }
    }
}

extension ComposedPatch {
    /// What both parts together say at a path.
    func says(at path: [String]) -> PatchSaying { PatchSaying(patches, at: path) }
}

extension OverrideLayer.Entry {
    /// What the entry says at a path.
    func says(at other: [String]) -> PatchSaying {
        let common = min(path.count, other.count)
        guard zip(path, other).allSatisfy({ $0.isSpelled(as: $1) }) else { return .nothing }
        if path.count <= other.count { return value.says(at: other[common...]) }
        return .value(path[common...].reversed().reduce(value) { .object([($1, $0)]) })
    }
}

extension Layers {
    /// What a layer says at a path. To be asked of layers as they are shown.
    func says(_ layer: ConfigLayer, at path: [String]) -> PatchSaying {
        switch layer {
        case .defaults: defaults?.content.says(at: path) ?? .nothing
        case .host: host?.content.says(at: path) ?? .nothing
        case .remote: remote?.content.says(at: path) ?? .nothing
        case .experiment: PatchSaying(experiment.overlays.map(\.values), at: path)
        case .override: override.says(at: path)
        }
    }
}

extension OverrideLayer {
    /// What all entries together say at a path.
    fileprivate func says(at path: [String]) -> PatchSaying {
        let speakers = entries(around: path).filter { $0.says(at: path) != .nothing }
        if speakers.count < 2 { return speakers.first?.says(at: path) ?? .nothing }
        return PatchSaying(OverrideLayer(entries: speakers).patches(), at: path)
    }
}
