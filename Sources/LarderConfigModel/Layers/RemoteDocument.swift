package import LarderHTTPSemantics
package import LarderJSON

/// The document of the remote source or of a push.
package struct RemoteDocument: Sendable {
    /// Applied before the document; see ``ComposedPatch``.
    package var removals: JSONValue?
    /// The document, without the member that declares experiments.
    package var document: JSONValue
    /// That member and its value, if the document has one and the settings name it.
    package var experiments: (member: String, list: JSONValue)?
    package var version: UpstreamVersion?
    package var validator: Validator?
    /// A URL, a path, or ``SourceOrigin/push``.
    package var origin: String
    /// When it last changed, in milliseconds since 1970.
    package var updatedAt: Int
    /// The process that pushed it; nil if it was not pushed, or if that is not recorded.
    package var pushedBy: Peer?
    /// The versions of this document and of those before it.
    package var seenVersions = SeenVersions()

    package init(
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
    package var content: ComposedPatch { ComposedPatch(removals: removals, patch: document) }

    /// Whether another document has the same content, whatever its version and origin are.
    func hasSameContent(as other: RemoteDocument?) -> Bool {
        other?.content == content && other?.experiments?.member == experiments?.member
            && other?.experiments?.list == experiments?.list
    }
}
