package import LarderJSON

extension Layers {
    /// RFC 7396 merging, lowest to highest; what is locked stays as the files have it. It depends on nothing but the layers:
    /// those of an earlier snapshot resolve to its value again.
    package func resolved() -> JSONValue {
        let shown = shown
        var documents: [JSONValue] = []
        if let defaults = shown.defaults { documents += defaults.content.patches }
        if let host = shown.host { documents += host.content.patches }
        let base = rules.locks.isEmpty ? nil : MergePatch.merge(documents)
        if let remote = shown.remote { documents += remote.content.patches }
        for overlay in shown.experiment.overlays { documents.append(overlay.values) }
        let merged = shown.override.applied(to: documents)
        return base.map { rules.locks.pin(merged, to: $0) } ?? merged
    }

    /// What ``resolved()`` returns, computed away from every actor.
    @concurrent
    package func resolvedConcurrently() async -> JSONValue { resolved() }

    /// What ``resolved()`` returns. It is the remote document itself if no other layer says anything: one document in memory
    /// instead of two.
    package func resolvedSharing() -> JSONValue {
        let value = resolved()
        guard isRemoteAlone, let remote = remote?.document, remote.isWholeDocument, remote.isCompact,
            remote.hasSameText(as: value)
        else { return value }
        return remote
    }

    /// Whether no layer says anything besides the remote one.
    package var isRemoteAlone: Bool {
        FileLayer.allCases.allSatisfy { (self[$0]?.document.count ?? 0) == 0 } && experiment.overlays.isEmpty
            && override.isEmpty && hold == nil
    }

    /// Whether any layer says anything.
    package var isEmpty: Bool {
        remote == nil && isRemoteAlone
    }

    /// Whether each layer of files has the same content, and both have a remote document or none.
    package func hasSameDocuments(as other: Layers) -> Bool {
        FileLayer.allCases.allSatisfy { self[$0]?.content == other[$0]?.content } && hasRemote == other.hasRemote
    }
}
