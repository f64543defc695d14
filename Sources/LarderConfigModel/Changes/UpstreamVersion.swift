package import LarderJSON

/// The version that a source gives a document. Sources may return to older versions. Upstream versions never order
/// snapshots; they only show whether a document is older than the current one.
package struct UpstreamVersion: Sendable, Hashable, CustomStringConvertible {
    @ComparedAsBytes package private(set) var text: String

    /// Identifies the counter from which the version comes, such as an etcd cluster ID; nil if unknown. Versions of
    /// different counters cannot be ordered, because each counter starts over.
    @ComparedAsBytes package private(set) var series: String?

    package init(_ text: String) { self.init(text, series: nil) }

    package init(_ text: String, series: String?) {
        self.text = text
        self.series = series
    }

    package var description: String { text }

    /// Whether this version is certainly older than another one: both consist of numbers separated by `.`, `-` or `:`
    /// (`7`, `v1.12.3`, `2026-11-21`), and the first number that differs is smaller. Missing numbers count as 0. Other
    /// versions, such as commit IDs, have no order, and a document with such a version is never rejected as older.
    package func isOlder(than other: UpstreamVersion) -> Bool {
        if let series, let theirs = other.series, !series.isSpelled(as: theirs) { return false }
        guard let mine = Self.parts(text), let theirs = Self.parts(other.text) else { return false }
        for index in 0..<max(mine.count, theirs.count) {
            let left = index < mine.count ? mine[index] : "0"
            let right = index < theirs.count ? theirs[index] : "0"
            if left.utf8.count != right.utf8.count { return left.utf8.count < right.utf8.count }
            if left != right { return left < right }
        }
        return false
    }

    /// Whether the versions can be ordered: both have the form that ``isOlder(than:)`` compares, and both come from the
    /// same counter (``series``), or the counter of at least one is unknown.
    func isOrdered(with other: UpstreamVersion) -> Bool {
        if let series, let otherSeries = other.series, !series.isSpelled(as: otherSeries) { return false }
        return Self.parts(text) != nil && Self.parts(other.text) != nil
    }

    /// The numbers as digit strings without leading zeros, so that they can have any length; nil if the version has
    /// another form.
    private static func parts(_ text: String) -> [Substring]? {
        let digits = text.first == "v" || text.first == "V" ? text.dropFirst() : text[...]
        let parts = digits.split(omittingEmptySubsequences: false) { $0 == "." || $0 == "-" || $0 == ":" }
        var stripped: [Substring] = []
        for part in parts {
            guard !part.isEmpty, part.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
            let significant = part.drop { $0 == "0" }
            stripped.append(significant.isEmpty ? "0" : significant)
        }
        return stripped
    }
}

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
