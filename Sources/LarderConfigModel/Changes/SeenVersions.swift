import LarderJSON

/// The versions of the documents that a namespace has accepted. They are used to reject older documents, and documents
/// without a version from a source that has sent versions.
package struct SeenVersions: Sendable, Equatable {
    /// Later documents must not be older than this version; nil if no document had one.
    package var highest: UpstreamVersion?
    /// The identity of the source that has sent a document with a version; nil if none has.
    package var source: String?

    package init(highest: UpstreamVersion? = nil, source: String? = nil) {
        self.highest = highest
        self.source = source
    }
}

extension SeenVersions {
    /// The versions after a single accepted document.
    /// - Parameter sender: the identity of the source, or ``SourceOrigin/push``
    package init(of version: UpstreamVersion?, from sender: String) {
        self.init(highest: version, source: version == nil || sender == SourceOrigin.push ? nil : sender)
    }

    /// Checks the version of a document.
    /// - Throws: `rejected` if the document is older than ``highest``, or if it lacks a required version
    package func check(_ document: SourceDocument, from sender: String) throws(ConfigError) {
        if let version = document.version {
            guard let highest, version.isOlder(than: highest) else { return }
            throw ConfigError(
                .rejected,
                "version \(version) is older than version \(highest), which was accepted before; use force if that is "
                    + "intended", canForce: true)
        }
        let place = document.versionPath.map { " at \($0.pointer)" } ?? ""
        switch document.versionRequirement {
        case .never: return
        case .onceSeen:
            guard source == sender else { return }
            let previous = highest.map { "version \($0)" } ?? "one"
            throw ConfigError(
                .rejected,
                "the document has no version\(place), but an earlier one of this source had \(previous); correct the "
                    + "source, set versionRequired to false, or use force if that is intended", canForce: true)
        case .always:
            throw ConfigError(
                .rejected,
                "the document has no version\(place), but the settings require one; correct the source or versionPath, "
                    + "set versionRequired to false, or use force if that is intended", canForce: true)
        }
    }

    /// Adds the version of an accepted document as the new ``highest``. This version is lower than the previous one
    /// only if the document was forced or the two versions cannot be ordered. A forced document without a version
    /// clears ``source``, unless it was pushed.
    func adding(_ version: UpstreamVersion?, from sender: String, force: Bool) -> SeenVersions {
        var next = self
        if let version {
            next.highest = version
            if sender != SourceOrigin.push { next.source = sender }
        } else if force, sender != SourceOrigin.push {
            next.source = nil
        }
        return next
    }
}
