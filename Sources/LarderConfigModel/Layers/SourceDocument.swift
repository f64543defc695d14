package import LarderHTTPSemantics
package import LarderJSON

/// A document as a source gave it.
package struct SourceDocument: Sendable {
    /// How a document differs from an earlier one of the same source, if scalars have changed and nothing else.
    package struct Edits: Sendable {
        /// The earlier document.
        package var base: JSONValue
        /// The scalars that have changed, each once.
        package var replacements: [JSONValue.Replacement]

        package init(base: JSONValue, replacements: [JSONValue.Replacement]) {
            self.base = base
            self.replacements = replacements
        }
    }

    /// The document, an object.
    package var value: JSONValue
    /// Nulls that are applied as a merge patch before ``value``; see ``ComposedPatch``. nil for none.
    package var removals: JSONValue?
    /// What the source calls its version, where it does.
    package var version: UpstreamVersion?
    /// Where the version belongs in the document, for messages.
    package var versionPath: JSONPath?
    /// Whether the document is rejected if it has no version.
    package var versionRequirement = VersionRequirement.never
    /// What proves later that this document is held.
    package var validator: Validator?
    /// Who pushed it; nil for one that a source gave.
    package var pushedBy: Peer?
    /// How the document differs from an earlier one; nil if that is not known.
    package var edits: Edits?

    package init(
        value: JSONValue, version: UpstreamVersion? = nil, validator: Validator? = nil, pushedBy: Peer? = nil
    ) {
        self.value = value
        self.version = version
        self.validator = validator
        self.pushedBy = pushedBy
    }
}

extension SourceDocument {
    /// Makes a document with the version that it has at a path. Only a number and a text that is not empty are versions.
    /// - Parameter versionPath: nil if the documents of the source have no version
    package init(value: JSONValue, versionPath: JSONPath?, requirement: VersionRequirement, validator: Validator?) {
        let found = versionPath.flatMap { value.value(at: $0) }
        let text = found?.string ?? found?.numberText ?? ""
        self.init(value: value, version: text.isEmpty ? nil : UpstreamVersion(text), validator: validator)
        self.versionPath = versionPath
        versionRequirement = versionPath == nil ? .never : requirement
    }
}

/// Whether a document has to have a version.
package enum VersionRequirement: Sendable, Hashable {
    /// Each document must have one.
    case always
    /// Each document must have one after an earlier document of the same source had one.
    case onceSeen
    /// A document may have none.
    case never
}
