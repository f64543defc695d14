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
