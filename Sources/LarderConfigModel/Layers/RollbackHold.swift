import LarderJSON

/// Which document ends the hold of a rollback. A release, a forced refresh and a forced push always end it.
package enum HoldRule: String, Sendable, CaseIterable {
    /// A document of the source or a push that is newer than the rejected one, which was live when the rollback began.
    /// If the version of the rejected document cannot be ordered, any other document counts as newer.
    case untilNewer
    /// No document.
    case untilReleased
    /// The end of a rollout. Earlier versions of this program could show the live remote document to some clients
    /// only, and hold the previous one for all others. This version reads such holds from disk, and the agent ends
    /// the one that is in effect at its start.
    case rollout
}

/// The documents that a rollback shows instead of the live ones. A layer is held only if its live document differs from
/// that of the restored revision. Live documents are still recorded in ``Layers`` and are shown again when the hold
/// ends.
package struct RollbackHold: Sendable {
    /// A held layer. Its content is nil if the layer had none at the restored revision.
    package struct Layer<Content: Sendable>: Sendable {
        package var content: Content?

        package init(content: Content?) { self.content = content }
    }

    /// The revision that was restored.
    package var revision: Int
    /// When it was restored, in milliseconds since 1970.
    package var since: Int
    package var rule = HoldRule.untilReleased
    /// The client that requested the rollback; nil if no client did, or if an older version of this program recorded
    /// the hold.
    package var peer: Peer?
    /// The remote document that was live when the rollback began; nil for none. ``HoldRule/untilNewer`` compares later
    /// documents with it.
    package var rejected: Rejected?
    /// Why an earlier version of this program rolled back a rollout, as text; nil if the hold is not the result of one.
    package var rejection: String?
    /// The held file layers. Other file layers are shown live.
    package var files: [FileLayer: Layer<FileDocument>] = [:]
    /// The held remote layer; nil if the live one is shown.
    package var remote: Layer<RemoteDocument>?

    /// Identifies the rejected remote document. It is stored separately, because the live document may be another one
    /// after a crash.
    package struct Rejected: Sendable, Equatable {
        package var version: UpstreamVersion?
        /// The digest of all content of the document, in the form of ``ConfigSnapshot/digest``. Removals, the document
        /// without its experiments, and the list of experiments are combined in arrays; absent parts are left out.
        package var digest: String
        /// The identity of its source, or ``SourceOrigin/push``.
        package var source: String

        package init(version: UpstreamVersion?, digest: String, source: String) {
            self.version = version
            self.digest = digest
            self.source = source
        }
    }

    package init(revision: Int, since: Int, peer: Peer? = nil, rejected: Rejected? = nil) {
        self.revision = revision
        self.since = since
        self.peer = peer
        self.rejected = rejected
    }

    /// Whether no layer is held.
    package var isEmpty: Bool { files.isEmpty && remote == nil }

    /// The rule of a rollback that specifies none. A later document is known to be newer than the rejected one only if
    /// the source's versions can be ordered.
    package var defaultRule: HoldRule { unorderedReason == nil ? .untilNewer : .untilReleased }

    /// Why it cannot be determined whether a later document is newer than the rejected one; nil if the versions of the
    /// source can be ordered.
    private var unorderedReason: String? {
        if !files.isEmpty { return "files have no versions, so later content is not known to be newer" }
        guard let version = rejected?.version else {
            return "the rejected document has no version, so a later document is not known to be newer"
        }
        // If the rollback shows no held remote document, the rejected version is compared with itself, to find out
        // whether it can be ordered at all.
        let shown = remote?.content.map(\.version) ?? version
        if let shown, version.isOrdered(with: shown) { return nil }
        return "version \"\(version)\" cannot be ordered, so a later document is not known to be newer"
    }

    /// Why the hold has its rule, as text for people.
    package var reason: String {
        if let rejection { return "the rollout was rolled back: \(rejection)" }
        if rule != defaultRule { return "the rollback requested it" }
        return unorderedReason ?? "the versions of the source can be ordered"
    }

    /// The held layers, lowest first.
    package var layers: [ConfigLayer] { ConfigLayer.allCases.filter(holds) }

    /// Whether a layer is held. Only layers that consist of a document can be held.
    package func holds(_ layer: ConfigLayer) -> Bool {
        switch layer {
        case .defaults, .host: layer.fileLayer.flatMap { files[$0] } != nil
        case .remote: remote != nil
        // Overrides are restored and not held. Overlays are live, except for those that a held remote document
        // declares.
        case .experiment, .override: false
        }
    }
}

extension RollbackHold.Rejected {
    package init(_ remote: RemoteDocument) {
        var all: JSONValue = remote.experiments.map { [remote.document, $0.list] } ?? remote.document
        if let removals = remote.removals { all = [removals, all] }
        self.init(version: remote.version, digest: SnapshotDigest.text(of: all), source: remote.source)
    }
}

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
            revision: revision, since: now, peer: peer, rejected: remote.map(RollbackHold.Rejected.init))
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
