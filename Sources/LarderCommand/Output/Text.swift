extension String {
    /// The text as it can be shown on a terminal and in one line: control characters, which could move the cursor or
    /// worse, are written as their escapes. Names of processes and messages of remote sources may hold any.
    var printable: String { escaped { $0 == "\n" || $0 == "\t" || Self.isControl($0) } }

    /// The same with line ends and tabs kept.
    var printableLines: String { escaped { Self.isControl($0) && $0 != "\n" && $0 != "\t" } }

    /// Whether it holds a character that ``printable`` replaces.
    var hasControls: Bool { unicodeScalars.contains(where: Self.isControl) }

    /// The text as one word of a shell command.
    var shellWord: String {
        let isPlain =
            !isEmpty
            && utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
                case UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: "/._-+:@%,".utf8.contains(byte)
                }
            }
        return isPlain ? self : "'\(replacing("'", with: "'\\''"))'"
    }

    /// The text filled with spaces up to a width in characters.
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }

    /// The text with spaces before it up to a width in characters.
    func rightAligned(to width: Int) -> String {
        String(repeating: " ", count: max(0, width - count)) + self
    }

    private func escaped(_ isBad: (Unicode.Scalar) -> Bool) -> String {
        guard unicodeScalars.contains(where: isBad) else { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            text += isBad(scalar) ? scalar.escaped(asASCII: true) : String(scalar)
        }
    }

    /// C0 and C1 controls, DEL, and the characters that change the direction of the text around them.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

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
