/// What a source calls its version. It may go back, and it never orders snapshots locally; it only tells whether an
/// answer is older than what is held.
package struct UpstreamVersion: Sendable, Hashable, CustomStringConvertible {
    /// The version as the source gave it.
    package let text: String

    /// What counts: an etcd cluster's id, say. Two versions that are known to be counted by different ones have no order,
    /// since each of them begins anew.
    package let series: String?

    /// Takes a version as the source gave it.
    package init(_ text: String) {
        self.text = text
        series = nil
    }

    /// Takes a version with what counts it, if that is known.
    package init(_ text: String, series: String?) {
        self.text = text
        self.series = series
    }

    /// The version as the source gave it.
    package var description: String { text }

    /// Whether this version is certainly older than another: both are numbers with the same kind of separators
    /// (`7`, `v1.12.3`, `2026-11-21`) and the first part that differs is smaller. Versions of any other form, such as
    /// commit ids, have no order, and a document that carries one is never refused for its age.
    package func isOlder(than other: UpstreamVersion) -> Bool {
        if let series, let theirs = other.series, series != theirs { return false }
        guard let mine = Self.parts(text), let theirs = Self.parts(other.text) else { return false }
        for index in 0..<max(mine.count, theirs.count) {
            let left = index < mine.count ? mine[index] : "0"
            let right = index < theirs.count ? theirs[index] : "0"
            if left.utf8.count != right.utf8.count { return left.utf8.count < right.utf8.count }
            if left != right { return left < right }
        }
        return false
    }

    /// Whether the versions can be ordered: both are numbers as ``isOlder(than:)`` compares them, of the same series as far as
    /// that is known.
    func isOrdered(with other: UpstreamVersion) -> Bool {
        if let series, let otherSeries = other.series, series != otherSeries { return false }
        return Self.parts(text) != nil && Self.parts(other.text) != nil
    }

    /// The numbers as digit strings without leading zeros, so that they may be of any length.
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
