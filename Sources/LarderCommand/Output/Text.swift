extension String {
    /// The text in one line that is safe for a terminal. Control characters are escaped, because they could move the
    /// cursor or change the output. Process names and messages of remote sources may contain them.
    package var printable: String { escaped { $0 == "\n" || $0 == "\t" || Self.isControl($0) } }

    /// Like ``printable``, but with line ends and tabs kept.
    var printableLines: String { escaped { Self.isControl($0) && $0 != "\n" && $0 != "\t" } }

    /// Whether the text contains a character that ``printable`` escapes.
    var hasControls: Bool { unicodeScalars.contains(where: Self.isControl) }

    /// The text with everything escaped that a terminal would not display as it is. Line ends, tabs and the colors of
    /// ``Style`` are kept. The escapes are those of JSON, so that JSON stays valid.
    var terminalText: String {
        guard hasControls else { return self }
        var text = ""
        var rest = Substring(self).unicodeScalars
        while let scalar = rest.first {
            if let color = Style.sequences.first(where: { rest.starts(with: $0.unicodeScalars) }) {
                text += color
                rest = rest.dropFirst(color.unicodeScalars.count)
                continue
            }
            if Self.isControl(scalar), scalar != "\n", scalar != "\t" {
                let digits = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            } else {
                text.unicodeScalars.append(scalar)
            }
            rest = rest.dropFirst()
        }
        return text
    }

    /// The text, padded with trailing spaces to a width in characters.
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }

    /// The text, padded with leading spaces to a width in characters.
    func rightAligned(to width: Int) -> String {
        String(repeating: " ", count: max(0, width - count)) + self
    }

    private func escaped(_ isBad: (Unicode.Scalar) -> Bool) -> String {
        guard unicodeScalars.contains(where: isBad) else { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            text += isBad(scalar) ? scalar.escaped(asASCII: true) : String(scalar)
        }
    }

    /// Whether a character is a C0 or C1 control, DEL, a line or paragraph separator, or changes the text direction.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x61C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

/// Text in columns.
struct TextTable {
    let headings: [String]
    /// The indices of columns with numbers, which are aligned to the right.
    var figures: Set<Int> = []

    /// The whole table without a final line end.
    func text(_ rows: [[String]]) -> String { Self.text([headings] + rows, figures: figures) }

    /// Formats rows without headings. All rows must have the same number of columns.
    /// - Parameter minWidths: the minimum width of each column.
    static func text(_ rows: [[String]], figures: Set<Int>, minWidths: [Int]? = nil) -> String {
        let widths = (rows.first ?? []).indices.map { column in
            max(minWidths?[column] ?? 0, rows.map { $0[column].count }.max() ?? 0)
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
