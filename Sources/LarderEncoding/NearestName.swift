/// Suggests known names for an unknown one.
package enum NearestName {
    /// Returns a suggestion for an unknown name: the nearest known name if it is close, else the nearest known name
    /// that begins with the unknown one, else a list of all known names, the nearest first.
    package static func advice(for name: String, among known: [String]) -> String {
        if known.isEmpty { return "remove it" }
        let ranked = ranked(known, by: name)
        if let suggestion = suggestion(for: name, in: ranked) { return "did you mean \"\(suggestion)\"?" }
        return "known here: \(ranked.map(\.name).joined(separator: ", "))"
    }

    /// Returns the known name that an unknown one is probably meant to be: the nearest if it is close, else the nearest
    /// that begins with the unknown one; nil if there is neither.
    package static func suggestion(for name: String, among known: [String]) -> String? {
        suggestion(for: name, in: ranked(known, by: name))
    }

    private static func suggestion(for name: String, in ranked: [(distance: Int, name: String)]) -> String? {
        guard let nearest = ranked.first else { return nil }
        if nearest.distance <= max(2, nearest.name.count / 3), nearest.distance < nearest.name.count {
            return nearest.name
        }
        guard name.count >= 3 else { return nil }
        return ranked.first { $0.name.lowercased().hasPrefix(name.lowercased()) }?.name
    }

    /// The known names with their distances, the nearest first. Names with equal distances keep their order.
    private static func ranked(_ known: [String], by name: String) -> [(distance: Int, name: String)] {
        known.enumerated()
            .map { (distance: distance(name.lowercased(), $1.lowercased()), index: $0, name: $1) }
            .sorted { ($0.distance, $0.index) < ($1.distance, $1.index) }
            .map { ($0.distance, $0.name) }
    }

    /// The restricted Damerau-Levenshtein distance (optimal string alignment): the number of insertions, deletions,
    /// replacements and swaps of neighboring characters. No character takes part in two of these edits.
    package static func distance(_ first: String, _ second: String) -> Int {
        // A name in the settings file can have any length. Only its first 100 characters are compared, because a longer
        // name is far from every setting.
        let a = Array(first.unicodeScalars.prefix(100)), b = Array(second.unicodeScalars.prefix(100))
        var beforeLast: [Int] = []
        var last = Array(0...b.count)
        for i in 0..<a.count {
            var row = [i + 1]
            for j in 0..<b.count {
                var best = min(row[j] + 1, last[j + 1] + 1, last[j] + (a[i] == b[j] ? 0 : 1))
                if i > 0, j > 0, a[i] == b[j - 1], a[i - 1] == b[j] {
                    best = min(best, beforeLast[j - 1] + 1)
                }
                row.append(best)
            }
            beforeLast = last
            last = row
        }
        return last[b.count]
    }
}
