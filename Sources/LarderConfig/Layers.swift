import LarderHTTPSemantics
import LarderJSON
import LarderUpstream

/// Every source of a namespace's values, each kept whole, lowest first: `defaults`, `host`, `remote`, `experiment`,
/// `override`; and what is locked.
struct Layers: Sendable {
    /// The document of a layer that is read from files.
    struct Files: Sendable {
        /// Applied before the document; see ``ComposedPatch``.
        var removals: JSONValue?
        var document: JSONValue
        /// When it last changed, in milliseconds since 1970.
        var updatedAt: Int

        /// Both parts.
        var content: ComposedPatch { ComposedPatch(removals: removals, patch: document) }
    }

    /// The document of the remote source or of a push.
    struct Remote: Sendable {
        /// Applied before the document; see ``ComposedPatch``.
        var removals: JSONValue?
        /// The document, without the member that declares experiments.
        var document: JSONValue
        /// That member and its value, if the document has one and the settings name it.
        var experiments: (member: String, list: JSONValue)?
        var version: UpstreamVersion?
        var validator: Validator?
        /// A URL, a path, or `push`.
        var origin: String
        /// When it last changed, in milliseconds since 1970.
        var updatedAt: Int
        /// Who pushed it, if it was pushed and that was written down.
        var pushedBy: Peer?
        /// The versions of this document and those before it.
        var seenVersions = SeenVersions()

        /// Both parts of the document.
        var content: ComposedPatch { ComposedPatch(removals: removals, patch: document) }

        /// Whether another one says the same.
        func hasSameContent(as other: Remote?) -> Bool {
            other?.content == content && other?.experiments?.member == experiments?.member
                && other?.experiments?.list == experiments?.list
        }
    }

    private struct Content: Sendable {
        var defaults: Files?
        var host: Files?
        var remote: Remote?
        var experiment = ExperimentLayer()
        var override = OverrideLayer()
        var hold: Hold?
        var rules = LayerRules()
    }

    /// `@unchecked`, because it is changed, by the sole holder of a reference to it alone: copy-on-write.
    private final class Storage: @unchecked Sendable {
        var content: Content
        init(_ content: Content) { self.content = content }
    }

    /// Each publication copies them, for the history and for the disk, which so costs one reference.
    private var storage: Storage

    init(
        host: Files? = nil, remote: Remote? = nil, override: OverrideLayer = OverrideLayer()
    ) {
        storage = Storage(Content(host: host, remote: remote, override: override))
    }

    private var content: Content {
        get { storage.content }
        _modify {
            if !isKnownUniquelyReferenced(&storage) { storage = Storage(storage.content) }
            yield &storage.content
        }
    }

    var defaults: Files? {
        get { storage.content.defaults }
        _modify { yield &content.defaults }
    }
    var host: Files? {
        get { storage.content.host }
        _modify { yield &content.host }
    }
    var remote: Remote? {
        get { storage.content.remote }
        _modify { yield &content.remote }
    }
    /// The size of the remote document as text, in bytes; 0 without one. Known without a copy of all that the layer says.
    var remoteTextSize: Int { storage.content.remote?.document.textSize ?? 0 }
    /// The experiments of the settings and of the remote layer that is shown.
    var experiment: ExperimentLayer {
        get { storage.content.experiment }
        _modify { yield &content.experiment }
    }
    var override: OverrideLayer {
        get { storage.content.override }
        _modify { yield &content.override }
    }
    /// What a rollback shows instead of live layers; nil for nothing.
    var hold: Hold? {
        get { storage.content.hold }
        _modify { yield &content.hold }
    }
    /// The rules that are followed. Of those on disk the locks alone, which with the layers say what a snapshot was.
    var rules: LayerRules {
        get { storage.content.rules }
        _modify { yield &content.rules }
    }

    subscript(layer: FileLayer) -> Files? {
        get {
            switch layer {
            case .defaults: defaults
            case .host: host
            }
        }
        set {
            switch layer {
            case .defaults: defaults = newValue
            case .host: host = newValue
            }
        }
    }

    /// RFC 7396 merging, lowest to highest; what is locked stays as the files have it. It depends on nothing but the layers:
    /// those of an earlier snapshot resolve to its value again.
    func resolved() -> JSONValue {
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

    /// What ``resolved()`` returns. It is the remote document itself if no other layer says anything: one document in memory
    /// instead of two.
    func resolvedSharing() -> JSONValue {
        let value = resolved()
        guard isRemoteAlone, let remote = remote?.document, remote.isWholeDocument, remote.isCompact,
            remote.hasSameText(as: value)
        else { return value }
        return remote
    }

    /// Whether no layer says anything besides the remote one.
    var isRemoteAlone: Bool {
        FileLayer.allCases.allSatisfy { (self[$0]?.document.count ?? 0) == 0 } && experiment.overlays.isEmpty
            && override.isEmpty && hold == nil
    }

    /// Whether any layer says anything.
    var isEmpty: Bool {
        remote == nil && isRemoteAlone
    }
}

extension Layers.Files {
    init(_ content: ComposedPatch, updatedAt: Int) {
        self.init(removals: content.removals, document: content.patch, updatedAt: updatedAt)
    }
}
