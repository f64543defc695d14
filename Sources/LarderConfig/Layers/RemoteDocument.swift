import LarderHTTPSemantics
import LarderJSON

/// The document of the remote source or of a push.
struct RemoteDocument: Sendable {
    /// Applied before the document; see ``ComposedPatch``.
    var removals: JSONValue?
    /// The document, without the member that declares experiments.
    var document: JSONValue
    /// That member and its value, if the document has one and the settings name it.
    var experiments: (member: String, list: JSONValue)?
    var version: UpstreamVersion?
    var validator: Validator?
    /// A URL, a path, or ``SourceOrigin/push``.
    var origin: String
    /// When it last changed, in milliseconds since 1970.
    var updatedAt: Int
    /// The process that pushed it; nil if it was not pushed, or if that is not recorded.
    var pushedBy: Peer?
    /// The versions of this document and of those before it.
    var seenVersions = SeenVersions()

    init(
        removals: JSONValue? = nil, document: JSONValue, experiments: (member: String, list: JSONValue)? = nil,
        version: UpstreamVersion? = nil, validator: Validator? = nil, origin: String, updatedAt: Int,
        pushedBy: Peer? = nil, seenVersions: SeenVersions = SeenVersions()
    ) {
        self.removals = removals
        self.document = document
        self.experiments = experiments
        self.version = version
        self.validator = validator
        self.origin = origin
        self.updatedAt = updatedAt
        self.pushedBy = pushedBy
        self.seenVersions = seenVersions
    }

    /// Both parts of the document.
    var content: ComposedPatch { ComposedPatch(removals: removals, patch: document) }

    /// Whether another document has the same content, whatever its version and origin are.
    func hasSameContent(as other: RemoteDocument?) -> Bool {
        other?.content == content && other?.experiments?.member == experiments?.member
            && other?.experiments?.list == experiments?.list
    }
}
