import LarderJSON

/// Which document ends the hold of a rollback. A release, a forced refresh and a forced push end every hold.
public enum HoldRule: String, Sendable, CaseIterable {
    /// A document of the source or a push that is newer than the refused one. If the version of the refused document cannot be
    /// ordered, any other document counts as newer.
    case untilNewer
    /// None.
    case untilReleased
}

/// What a rollback keeps in the place of documents that differ from those of the revision it went back to. The live
/// documents go on being recorded in ``Layers``, and show again when the hold ends.
struct Hold: Sendable {
    /// A layer as it was then; nil where there was none.
    struct Layer<Content: Sendable>: Sendable {
        var content: Content?
    }

    /// The revision that was gone back to.
    var revision: Int
    /// When, in milliseconds since 1970.
    var since: Int
    var rule = HoldRule.untilReleased
    /// The client that asked for the rollback; nil if an older version of this program recorded the hold.
    var peer: Peer?
    /// The document that was current then and is thereby refused; nil where there was none.
    var refused: Refused?
    /// What is shown instead of layers of files; without those that are shown themselves.
    var files: [FileLayer: Layer<Layers.Files>] = [:]
    /// What is shown instead of the remote layer; nil where that is shown itself.
    var remote: Layer<Layers.Remote>?

    /// What tells a remote document from others. It is kept by itself, because after a crash the live document may be
    /// another one.
    struct Refused: Equatable {
        var version: UpstreamVersion?
        /// Of its text, the experiments that it declares included; as ``ConfigSnapshot/digest``.
        var digest: String
        var origin: String
    }

    /// Whether nothing is held.
    var isEmpty: Bool { files.isEmpty && remote == nil }

    /// The rule of a rollback that names none: only if the source's versions can be ordered is a later document known to be
    /// newer than the refused one.
    var defaultRule: HoldRule { unorderedReason == nil ? .untilNewer : .untilReleased }

    /// Why no document is known to be newer than what is refused; nil if versions show it.
    private var unorderedReason: String? {
        if !files.isEmpty { return "files have no versions, so a later change is not known to be newer" }
        guard let version = refused?.version else {
            return "the refused document has no version, so a later one is not known to be newer"
        }
        // If the source had no document at the revision that is shown, there is no other version to compare.
        let shown = remote?.content.map(\.version) ?? version
        if let shown, version.isOrdered(with: shown) { return nil }
        return "version \"\(version)\" has no order, so a later one is not known to be newer"
    }

    /// Why the hold has its rule, for people.
    var reason: String {
        if rule != defaultRule { return "the rollback asked for it" }
        return unorderedReason ?? "the source's versions can be ordered"
    }

    /// The layers that are held, lowest first.
    var layers: [ConfigLayer] { ConfigLayer.allCases.filter(holds) }

    /// Whether a layer of documents is shown as it was then.
    func holds(_ layer: ConfigLayer) -> Bool {
        switch layer {
        case .defaults: files[.defaults] != nil
        case .host: files[.host] != nil
        case .remote: remote != nil
        // The overlays are live, but those that a document declares which is held.
        case .experiment, .override: false
        }
    }
}

extension Hold.Refused {
    init(_ remote: Layers.Remote) {
        var all: JSONValue = remote.experiments.map { [remote.document, $0.list] } ?? remote.document
        if let removals = remote.removals { all = [removals, all] }
        self.init(version: remote.version, digest: SnapshotDigest.text(of: all), origin: remote.origin)
    }
}

extension Layers {
    /// The layers as they are resolved: with those that are held in the place of the live ones.
    var shown: Layers {
        guard let hold else { return self }
        var shown = self
        shown.hold = nil
        for (layer, held) in hold.files { shown[layer] = held.content }
        if let remote = hold.remote { shown.remote = remote.content }
        return shown
    }

    /// Takes up the overrides of earlier layers, and holds those of their documents that differ from the live ones.
    /// Overrides that have ended since stay away.
    /// - Parameter rule: what ends the hold; nil for ``Hold/defaultRule``
    mutating func rollBack(to old: Layers, revision: Int, rule: HoldRule? = nil, by peer: Peer? = nil, now: Int) {
        let old = old.shown
        var hold = Hold(revision: revision, since: now, peer: peer, refused: remote.map(Hold.Refused.init))
        for layer in FileLayer.allCases
        where (old[layer]?.content ?? .empty) != (self[layer]?.content ?? .empty) {
            hold.files[layer] = Hold.Layer(content: old[layer])
        }
        if !(old.remote?.hasSameContent(as: remote) ?? (remote == nil)) {
            hold.remote = Hold.Layer(content: old.remote)
        }
        hold.rule = rule ?? hold.defaultRule
        self.hold = hold.isEmpty ? nil : hold
        override = old.override
        _ = override.expire(at: now)
    }

    /// Forgets the remote layer, and what is held in its place.
    mutating func dropRemote() {
        remote = nil
        guard var held = hold else { return }
        let isDefault = held.rule == held.defaultRule
        held.remote = nil
        if isDefault { held.rule = held.defaultRule }
        hold = held.isEmpty ? nil : held
    }
}
