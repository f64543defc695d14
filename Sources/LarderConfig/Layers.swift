import JSON
import LarderUpstream

/// Every source of a namespace's values, each kept whole, lowest first: `host`, `remote`, `override`.
struct Layers: Sendable {
    /// The document of the administrator's files.
    struct Host: Sendable {
        var document: JSONValue
        /// When it last changed, in milliseconds since 1970.
        var updatedAt: Int
    }

    /// The document of the remote source or of a push.
    struct Remote: Sendable {
        var document: JSONValue
        var version: UpstreamVersion?
        var validator: Validator?
        /// A URL, a path, or `push`.
        var origin: String
        /// When it last changed, in milliseconds since 1970.
        var updatedAt: Int
        /// Who pushed it, if it was pushed and that was written down.
        var pushedBy: Peer?
    }

    var host: Host?
    var remote: Remote?
    var override = OverrideLayer()
    /// What a rollback shows instead of live layers; nil for nothing.
    var hold: Hold?

    /// RFC 7396 merging, lowest to highest. It depends on nothing but the layers: those of an earlier snapshot resolve to
    /// its value again.
    func resolved() -> JSONValue {
        let shown = shown
        var documents: [JSONValue] = []
        if let host = shown.host { documents.append(host.document) }
        if let remote = shown.remote { documents.append(remote.document) }
        documents += shown.override.patches()
        return MergePatch.merge(documents)
    }

    /// Whether any layer says anything.
    var isEmpty: Bool {
        (host?.document.count ?? 0) == 0 && remote == nil && override.entries.isEmpty && hold == nil
    }
}
