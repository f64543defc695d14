package import LarderHTTPSemantics
package import LarderJSON

/// The document of the remote source or of a push.
package struct RemoteDocument: Sendable {
    /// A merge patch of nulls that is applied before ``document``; see ``ComposedPatch``. Nil for none.
    package var removals: JSONValue?
    /// The document, without the member that declares experiments.
    package var document: JSONValue
    /// The member that declares experiments, and its value; nil if the document has none or the settings name no such
    /// member.
    package var experiments: (member: String, list: JSONValue)?
    package var version: UpstreamVersion?
    package var validator: Validator?
    /// A URL, a path, or ``SourceOrigin/push``, for people.
    package var origin: String
    /// The identity of the source, or ``SourceOrigin/push``. The validator and the versions are only used for the same
    /// source. It is the same as ``origin`` in state that an earlier version of this program wrote; see
    /// ``Layers/adopt(_:at:)``.
    package var source: String
    /// When the document last changed, in milliseconds since 1970.
    package var updatedAt: Int
    /// The process that pushed the document; nil if it was not pushed or the process is unknown.
    package var pushedBy: Peer?
    /// Why it was pushed; nil if it was not pushed or the client gave no reason.
    package var reason: String?
    /// The versions of this document and of those accepted before it.
    package var seenVersions = SeenVersions()

    package init(
        removals: JSONValue? = nil, document: JSONValue, experiments: (member: String, list: JSONValue)? = nil,
        version: UpstreamVersion? = nil, validator: Validator? = nil, origin: String,
        source: String? = nil, updatedAt: Int, pushedBy: Peer? = nil, reason: String? = nil,
        seenVersions: SeenVersions = SeenVersions()
    ) {
        self.removals = removals
        self.document = document
        self.experiments = experiments
        self.version = version
        self.validator = validator
        self.origin = origin
        self.source = source ?? origin
        self.updatedAt = updatedAt
        self.pushedBy = pushedBy
        self.reason = reason
        self.seenVersions = seenVersions
    }

    /// ``removals`` and ``document`` as one patch.
    package var content: ComposedPatch { ComposedPatch(removals: removals, patch: document) }

    /// Whether another document has the same content, regardless of version and origin.
    func hasSameContent(as other: RemoteDocument?) -> Bool {
        other?.content == content && (other?.experiments?.member).isSpelled(as: experiments?.member)
            && other?.experiments?.list == experiments?.list
    }
}
