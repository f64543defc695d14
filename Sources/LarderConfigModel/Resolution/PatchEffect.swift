package import LarderJSON

/// What a merge patch (RFC 7396), or a layer of several, has to say at a path.
package enum PatchEffect: Equatable {
    /// Nothing: what was there stays.
    case unchanged
    /// A value, which replaces what was there or merges with it.
    case value(JSONValue)
    /// That nothing is there: a null at the path or above it, or above it something that has no members.
    case removed

    /// What two say one after the other.
    package func then(_ next: PatchEffect) -> PatchEffect {
        switch (self, next) {
        case (_, .unchanged): self
        case (.value(let first), .value(let second)): .value(MergePatch.compose(first, second))
        case (_, .removed), (_, .value): next
        }
    }
}

extension JSONValue {
    /// What the value says at a path, as a merge patch.
    package func effect(at path: some Collection<String>) -> PatchEffect {
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
    package func effect(at path: [String]) -> PatchEffect { PatchEffect(patches, at: path) }
}
