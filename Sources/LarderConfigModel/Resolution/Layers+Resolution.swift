package import LarderJSON

extension Layers {
    /// Merges the layers by RFC 7396, lowest first. Locked paths get the value of the file layers. The result depends
    /// only on the layers, so that the layers of an earlier snapshot resolve to its value again.
    package func resolved() -> JSONValue {
        let shown = shown
        var documents: [JSONValue] = []
        for layer in FileLayer.allCases { documents += shown[layer]?.content.patches ?? [] }
        let base = rules.locks.isEmpty ? nil : MergePatch.merge(documents)
        if let remote = shown.remote { documents += remote.content.patches }
        for overlay in shown.experiment.overlays { documents.append(overlay.values) }
        let merged = shown.override.applied(to: documents)
        return base.map { rules.locks.pin(merged, to: $0) } ?? merged
    }

    /// Computes ``resolved()`` off every actor.
    @concurrent
    package func resolvedConcurrently() async -> JSONValue { resolved() }

    /// Returns the same value as ``resolved()``. If only the remote layer has content, the value is the remote document
    /// itself, so that memory holds one document instead of two.
    package func resolvedSharing() -> JSONValue {
        let value = resolved()
        guard isRemoteAlone, let remote = remote?.document, remote.isWholeDocument, remote.isCompact,
            remote.hasSameText(as: value)
        else { return value }
        return remote
    }

    /// Whether no layer except the remote one has content, and there is no hold.
    package var isRemoteAlone: Bool {
        FileLayer.allCases.allSatisfy { (self[$0]?.document.count ?? 0) == 0 } && experiment.overlays.isEmpty
            && override.isEmpty && hold == nil
    }

    /// Whether no layer has content.
    package var isEmpty: Bool {
        remote == nil && isRemoteAlone
    }

    /// Whether each file layer has the same content here and in `other`, and either both or neither have a remote
    /// document.
    package func hasSameDocuments(as other: Layers) -> Bool {
        FileLayer.allCases.allSatisfy { self[$0]?.content == other[$0]?.content } && hasRemote == other.hasRemote
    }
}

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
