package import LarderJSON

/// The version that a source gives a document. Sources may return to older versions. Upstream versions never order
/// snapshots; they only show whether a document is older than the current one.
package struct UpstreamVersion: Sendable, Hashable, CustomStringConvertible {
    @ComparedAsBytes package private(set) var text: String

    /// Identifies the counter from which the version comes, such as an etcd cluster ID; nil if unknown. Versions of
    /// different counters cannot be ordered, because each counter starts over.
    @ComparedAsBytes package private(set) var series: String?

    package init(_ text: String) {
        self.text = text
        series = nil
    }

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
