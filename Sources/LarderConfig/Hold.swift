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
        let all: JSONValue = remote.experiments.map { [remote.document, $0.list] } ?? remote.document
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
    mutating func rollBack(to old: Layers, revision: Int, now: Int) {
        let old = old.shown
        var hold = Hold(revision: revision, since: now, refused: remote.map(Hold.Refused.init))
        for layer in FileLayer.allCases
        where (old[layer]?.document ?? .emptyObject) != (self[layer]?.document ?? .emptyObject) {
            hold.files[layer] = Hold.Layer(content: old[layer])
        }
        if !(old.remote?.saysTheSame(as: remote) ?? (remote == nil)) {
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
