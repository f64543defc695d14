/// Rows of text in columns, for people.
struct TextTable {
    /// The first row.
    let headings: [String]
    /// The columns that hold figures, which are aligned to the right.
    var figures: Set<Int> = []

    /// The whole table without its last line end.
    func text(_ rows: [[String]]) -> String { Self.text([headings] + rows, figures: figures) }

    /// Rows alone, all of the same length.
    /// - Parameter leastWidths: how wide each column is at least.
    static func text(_ rows: [[String]], figures: Set<Int>, leastWidths: [Int]? = nil) -> String {
        let widths = (rows.first ?? []).indices.map { column in
            max(leastWidths?[column] ?? 0, rows.map { $0[column].count }.max() ?? 0)
        }
        return rows.map { row in
            let line = row.enumerated().map { column, cell in
                figures.contains(column) ? cell.rightAligned(to: widths[column]) : cell.padded(to: widths[column])
            }.joined(separator: "  ")
            let end = line.lastIndex { $0 != " " }.map { line.index(after: $0) } ?? line.startIndex
            return String(line[..<end])
        }.joined(separator: "\n")
    }
}
