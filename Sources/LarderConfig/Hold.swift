import JSON

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
    /// The document that was current then and is thereby refused; nil where there was none.
    var refused: Refused?
    /// What is shown instead of the host layer; nil where that is shown itself.
    var host: Layer<Layers.Host>?
    /// What is shown instead of the remote layer; nil where that is shown itself.
    var remote: Layer<Layers.Remote>?

    /// What tells a remote document from others. It is kept by itself, because after a crash the live document may be
    /// another one.
    struct Refused: Equatable {
        var version: UpstreamVersion?
        /// Of its text, as ``ConfigSnapshot/digest``.
        var digest: String
        var origin: String
    }

    /// Whether nothing is held.
    var isEmpty: Bool { host == nil && remote == nil }
}

extension Hold.Refused {
    init(_ remote: Layers.Remote) {
        self.init(
            version: remote.version, digest: ConfigSnapshot.digest(of: remote.document), origin: remote.origin)
    }
}

extension Layers {
    /// The layers as they are resolved: with those that are held in the place of the live ones.
    var shown: Layers {
        guard let hold else { return self }
        var shown = self
        shown.hold = nil
        if let host = hold.host { shown.host = host.content }
        if let remote = hold.remote { shown.remote = remote.content }
        return shown
    }

    /// Takes up the overrides of earlier layers, and holds those of their documents that differ from the live ones.
    /// Overrides that have ended since stay away.
    mutating func rollBack(to old: Layers, revision: Int, now: Int) {
        let old = old.shown
        var hold = Hold(revision: revision, since: now, refused: remote.map(Hold.Refused.init))
        if (old.host?.document ?? .emptyObject) != (host?.document ?? .emptyObject) {
            hold.host = Hold.Layer(content: old.host)
        }
        if (old.remote?.document ?? .emptyObject) != (remote?.document ?? .emptyObject) {
            hold.remote = Hold.Layer(content: old.remote)
        }
        self.hold = hold.isEmpty ? nil : hold
        override = old.override
        _ = override.expire(at: now)
    }

    /// Forgets the remote layer, and what is held in its place.
    mutating func dropRemote() {
        remote = nil
        hold?.remote = nil
        if hold?.isEmpty ?? false { hold = nil }
    }
}
