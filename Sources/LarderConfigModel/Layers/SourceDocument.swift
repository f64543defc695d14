package import LarderHTTPSemantics
package import LarderJSON

/// A document from a source or a push.
package struct SourceDocument: Sendable {
    /// The difference from an earlier document of the same source, if only scalars have changed.
    package struct Edits: Sendable {
        package var base: JSONValue
        /// The new scalars, with at most one replacement per path.
        package var replacements: [JSONValue.Replacement]

        package init(base: JSONValue, replacements: [JSONValue.Replacement]) {
            self.base = base
            self.replacements = replacements
        }
    }

    /// The document. It is rejected unless it is an object.
    package var value: JSONValue
    /// A merge patch of nulls that is applied before ``value``; see ``ComposedPatch``. Nil for none.
    package var removals: JSONValue?
    /// The version that the source gives the document; nil for none.
    package var version: UpstreamVersion?
    /// The path of the version in the document, for messages.
    package var versionPath: JSONPath?
    /// The condition under which the document is rejected if it has no version.
    package var versionRequirement = VersionRequirement.never
    /// The identity of the source that sent the document; nil for a push.
    package var source: String?
    /// Identifies the document in a later conditional request.
    package var validator: Validator?
    /// The process that pushed the document; nil if it came from a source.
    package var pushedBy: Peer?
    /// Why it was pushed; nil if it was not pushed or the client gave no reason.
    package var reason: String?
    /// The difference from an earlier document; nil if it is not known.
    package var edits: Edits?

    package init(
        value: JSONValue, version: UpstreamVersion? = nil, validator: Validator? = nil, pushedBy: Peer? = nil,
        reason: String? = nil
    ) {
        self.value = value
        self.version = version
        self.validator = validator
        self.pushedBy = pushedBy
        self.reason = reason
    }

    /// Creates a document whose version is the value at `versionPath`. Any value other than a number or a non-empty
    /// string counts as no version.
    /// - Parameter versionPath: nil if the documents of the source have no version
    package init(value: JSONValue, versionPath: JSONPath?, requirement: VersionRequirement, validator: Validator?) {
        let found = versionPath.flatMap { value.value(at: $0) }
        let text = found?.string ?? found?.numberText ?? ""
        self.init(value: value, version: text.isEmpty ? nil : UpstreamVersion(text), validator: validator)
        self.versionPath = versionPath
        versionRequirement = versionPath == nil ? .never : requirement
    }

    /// Whether this document is certainly older than another one of the same source, or certainly not older; nil if
    /// neither is known.
    package func isOlder(than other: SourceDocument) -> Bool? {
        if value.isSameDocument(as: other.value) { return false }
        guard let version, let otherVersion = other.version, version.isOrdered(with: otherVersion) else { return nil }
        return version.isOlder(than: otherVersion)
    }
}

/// Whether documents must have a version.
package enum VersionRequirement: Sendable, Hashable {
    /// Every document must have a version.
    case always
    /// Every document must have a version once a document of the same source had one.
    case onceSeen
    /// Versions are optional.
    case never
}

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

/// The content of a layer that is read from files.
package struct FileDocument: Sendable {
    /// A merge patch of nulls that is applied before ``document``; see ``ComposedPatch``. Nil for none.
    package var removals: JSONValue?
    package var document: JSONValue
    /// When the document last changed, in milliseconds since 1970.
    package var updatedAt: Int

    package init(removals: JSONValue? = nil, document: JSONValue, updatedAt: Int) {
        self.removals = removals
        self.document = document
        self.updatedAt = updatedAt
    }

    package init(_ content: ComposedPatch, updatedAt: Int) {
        self.init(removals: content.removals, document: content.patch, updatedAt: updatedAt)
    }

    /// ``removals`` and ``document`` as one patch.
    package var content: ComposedPatch { ComposedPatch(removals: removals, patch: document) }
}

extension ComposedPatch {
    /// A patch that changes nothing.
    package static let empty = ComposedPatch(.emptyObject)
}

/// Origins of remote documents that do not come from a source in the settings.
package enum SourceOrigin {
    /// A local process pushed the document.
    package static let push = "push"
}
