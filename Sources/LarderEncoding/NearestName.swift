/// Suggests known names for an unknown one.
package enum NearestName {
    /// Returns a suggestion for an unknown name: the nearest known name if it is close, else the nearest known name
    /// that begins with the unknown one, else a list of all known names, the nearest first.
    package static func advice(for name: String, among known: [String]) -> String {
        // Names with equal distances keep the order of `known`.
        let ranked = known.enumerated()
            .map { index, candidate in
                (distance: distance(name.lowercased(), candidate.lowercased()), index: index, name: candidate)
            }
            .sorted { ($0.distance, $0.index) < ($1.distance, $1.index) }
        guard let nearest = ranked.first else { return "remove it" }
        if nearest.distance <= max(2, nearest.name.count / 3), nearest.distance < nearest.name.count {
            return "did you mean \"\(nearest.name)\"?"
        }
        if name.count >= 3, let longer = ranked.first(where: { $0.name.lowercased().hasPrefix(name.lowercased()) }) {
            return "did you mean \"\(longer.name)\"?"
        }
        return "known here: \(ranked.map(\.name).joined(separator: ", "))"
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
