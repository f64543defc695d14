import LarderJSON

extension Layers {
    /// The layers as they are resolved: held layers replace the live ones.
    package var shown: Layers {
        guard let hold else { return self }
        var shown = self
        shown.hold = nil
        for (layer, held) in hold.files { shown[layer] = held.content }
        if let remote = hold.remote { shown.remote = remote.content }
        return shown
    }

    /// The layers without the hold of a rollback.
    package var live: Layers {
        if hold == nil { return self }
        var live = self
        live.hold = nil
        live.applyRulesLeniently(rules, now: 0)
        return live
    }

    /// Restores the overrides of earlier layers, and holds those of their documents that differ from the live ones.
    /// Overrides that have expired since then are not restored.
    /// - Parameter rule: what ends the hold; nil for ``RollbackHold/defaultRule``
    package mutating func rollBack(to old: Layers, revision: Int, rule: HoldRule? = nil, by peer: Peer? = nil, now: Int)
    {
        let old = old.shown
        var hold = RollbackHold(
            revision: revision, since: now, peer: peer, refused: remote.map(RollbackHold.Refused.init))
        for layer in FileLayer.allCases
        where (old[layer]?.content ?? .empty) != (self[layer]?.content ?? .empty) {
            hold.files[layer] = RollbackHold.Layer(content: old[layer])
        }
        if !(old.remote?.hasSameContent(as: remote) ?? (remote == nil)) {
            hold.remote = RollbackHold.Layer(content: old.remote)
        }
        hold.rule = rule ?? hold.defaultRule
        self.hold = hold.isEmpty ? nil : hold
        override = old.override
        _ = override.expire(at: now)
    }

    /// Removes the remote document, both the live and the held one.
    package mutating func dropRemote() {
        remote = nil
        guard var held = hold else { return }
        let isDefault = held.rule == held.defaultRule
        held.remote = nil
        if isDefault { held.rule = held.defaultRule }
        hold = held.isEmpty ? nil : held
    }
}
