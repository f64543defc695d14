extension Report {
    /// The report as a text table.
    func table() -> String {
        var lines = ["\(benchmark): \(headline)"]
        // If only some servers have a metric, the cells of the others are empty.
        var columns: [Metric] = []
        for metric in rows.flatMap(\.metrics) where !columns.contains(where: { $0.key == metric.key }) {
            columns.append(metric)
        }
        var cells = [[""] + columns.map(\.title)]
        for row in rows {
            let figures = columns.map { column in
                row.metrics.first { $0.key == column.key }.map { NumberText.grouped($0.value, decimals: $0.decimals) }
                    ?? ""
            }
            cells.append([row.name] + figures)
        }
        let widths = (0...columns.count).map { column in cells.map { $0[column].count }.max() ?? 0 }
        for row in cells {
            var line = " "
            for (column, cell) in row.enumerated() {
                let filler = String(repeating: " ", count: widths[column] - cell.count)
                line += column == 0 ? " " + cell + filler : "  " + filler + cell
            }
            lines.append(line)
        }
        if let ratio {
            let range =
                "\(NumberText.grouped(ratio.lowest, decimals: 3)) to \(NumberText.grouped(ratio.highest, decimals: 3))"
            lines.append(
                "  \(ratio.numerator) / \(ratio.denominator), \(ratio.metric): "
                    + "\(NumberText.grouped(ratio.median, decimals: 3)) (rounds \(range))")
        }
        return (lines + notes.map { "  note: \($0)" }).joined(separator: "\n")
    }
}
