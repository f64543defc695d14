package import LarderHTTPSemantics
package import LarderJSON

/// Every source of a namespace's values, each kept whole, lowest first: `defaults`, `host`, `remote`, `experiment`,
/// `override`; and what is locked.
package struct Layers: Sendable {
    private struct Content: Sendable {
        var defaults: FileDocument?
        var host: FileDocument?
        var remote: RemoteDocument?
        var experiment = ExperimentLayer()
        var override = OverrideLayer()
        var hold: RollbackHold?
        var rules = LayerRules()
    }

    /// `@unchecked`, because it is changed, by the sole holder of a reference to it alone: copy-on-write.
    private final class Storage: @unchecked Sendable {
        var content: Content
        init(_ content: Content) { self.content = content }
    }

    /// Each publication copies them, for the history and for the disk, which so costs one reference.
    private var storage: Storage

    package init(
        host: FileDocument? = nil, remote: RemoteDocument? = nil, override: OverrideLayer = OverrideLayer()
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

    package var defaults: FileDocument? {
        get { storage.content.defaults }
        _modify { yield &content.defaults }
    }
    package var host: FileDocument? {
        get { storage.content.host }
        _modify { yield &content.host }
    }
    package var remote: RemoteDocument? {
        get { storage.content.remote }
        _modify { yield &content.remote }
    }
    /// Whether there is a remote document. Known without a copy of it, as the other properties of the document below.
    package var hasRemote: Bool { storage.content.remote != nil }
    /// The validator of the remote document, if the document has this origin.
    package func validator(ofOrigin origin: String) -> Validator? {
        guard let remote = storage.content.remote, remote.origin == origin else { return nil }
        return remote.validator
    }
    /// Whether a value is the remote document itself.
    package func sharesRemoteDocument(with value: JSONValue) -> Bool {
        storage.content.remote.map { value.isSameDocument(as: $0.document) } ?? false
    }
    /// The size of the remote document as text, in bytes; 0 without one. Known without a copy of all that the layer says.
    package var remoteTextSize: Int { storage.content.remote?.document.textSize ?? 0 }
    /// The experiments of the settings and of the remote layer that is shown.
    package var experiment: ExperimentLayer {
        get { storage.content.experiment }
        _modify { yield &content.experiment }
    }
    package var override: OverrideLayer {
        get { storage.content.override }
        _modify { yield &content.override }
    }
    /// What a rollback shows instead of live layers; nil for nothing.
    package var hold: RollbackHold? {
        get { storage.content.hold }
        _modify { yield &content.hold }
    }
    /// The rules that are followed. Of those on disk the locks alone, which with the layers say what a snapshot was.
    package var rules: LayerRules {
        get { storage.content.rules }
        _modify { yield &content.rules }
    }

    /// What is locked. Known without a copy of all rules.
    package var locks: LockedPaths { storage.content.rules.locks }
    /// The rule of ``hold``; nil if nothing is held.
    package var holdRule: HoldRule? {
        // `hold?.rule` copies all of a hold that is rarely there.
        if case .none = storage.content.hold { return nil }
        return storage.content.hold?.rule
    }

    package subscript(layer: FileLayer) -> FileDocument? {
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
}
