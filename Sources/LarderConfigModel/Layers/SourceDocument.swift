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
}

extension SourceDocument {
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
