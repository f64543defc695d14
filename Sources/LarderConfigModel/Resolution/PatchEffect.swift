package import LarderJSON

/// The effect at a path of a merge patch (RFC 7396), or of several patches that are applied in order.
package enum PatchEffect: Equatable {
    /// The previous value stays.
    case unchanged
    /// A value that replaces the previous one or, as an object, is merged into it.
    case value(JSONValue)
    /// The value is removed, because the patch has null at the path, or has a scalar or array at an ancestor of the
    /// path that contains nothing at the path.
    case removed

    /// The combined effect of this and a later patch.
    package func then(_ next: PatchEffect) -> PatchEffect {
        switch (self, next) {
        case (_, .unchanged): self
        case (.value(let first), .value(let second)): .value(MergePatch.compose(first, second))
        case (_, .removed), (_, .value): next
        }
    }
}

extension JSONValue {
    /// The effect at a path if this value is applied as a merge patch.
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
    /// The combined effect of patches that are applied in order.
    init(_ patches: [JSONValue], at path: [String]) {
        self = patches.reduce(.unchanged) { $0.then($1.effect(at: path)) }
    }
}

extension ComposedPatch {
    /// The effect at a path of ``removals`` and then ``patch``.
    package func effect(at path: [String]) -> PatchEffect { PatchEffect(patches, at: path) }
}
