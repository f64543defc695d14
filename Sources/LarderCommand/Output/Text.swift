import Glibc
import LarderClientCore
import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderProtocol

extension String {
    /// The text in one line that is safe for a terminal. Control characters are escaped, because they could move the
    /// cursor or change the output. Process names and messages of remote sources may contain them.
    package var printable: String { escaped { $0 == "\n" || $0 == "\t" || $0.isUnsafeInLine } }

    /// Like ``printable``, but with line ends and tabs kept.
    var printableLines: String { escaped { $0.isUnsafeInLine && $0 != "\n" && $0 != "\t" } }

    /// Whether the text contains a character that ``printable`` escapes.
    var hasControls: Bool { unicodeScalars.contains(where: \.isUnsafeInLine) }

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
            if scalar.isUnsafeInLine, scalar != "\n", scalar != "\t" {
                text += "\\u" + String(scalar.value, radix: 16).rightAligned(to: 4, with: "0")
            } else {
                text.unicodeScalars.append(scalar)
            }
            rest = rest.dropFirst()
        }
        return text
    }

    /// The number of characters, without the colors of ``Style``.
    var width: Int {
        hasControls ? Style.sequences.reduce(self) { $0.split(separator: $1).joined() }.count : count
    }

    /// The text, shortened to a width in characters; its end is then an ellipsis. The colors of ``Style`` are kept.
    func shortened(to width: Int) -> String {
        guard self.width > width else { return self }
        var (text, count, isColored) = ("", 1, false)
        var rest = self[...]
        while let character = rest.first {
            if let color = Style.sequences.first(where: { rest.hasPrefix($0) }) {
                text += color
                isColored = true
                rest = rest.dropFirst(color.count)
                continue
            }
            if count >= width { break }
            text.append(character)
            count += 1
            rest = rest.dropFirst()
        }
        return text + "…" + (isColored ? Style.sequences[0] : "")
    }

    /// The text, padded with trailing spaces to a width in characters.
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - self.width))
    }

    /// The text, padded with leading spaces, or another filler of one character, to a width in characters.
    func rightAligned(to width: Int, with filler: String = " ") -> String {
        String(repeating: filler, count: max(0, width - self.width)) + self
    }

    private func escaped(_ isBad: (Unicode.Scalar) -> Bool) -> String {
        guard unicodeScalars.contains(where: isBad) else { return self }
        return unicodeScalars.reduce(into: "") { text, scalar in
            text += isBad(scalar) ? scalar.escaped(asASCII: true) : String(scalar)
        }
    }
}

/// Text in columns.
struct TextTable {
    let headings: [String]
    /// The indices of columns with numbers, which are aligned to the right.
    var figures: Set<Int> = []

    /// The number of characters to which the last column is not shortened further.
    private static let minLastWidth = 20

    /// The whole table without a final line end.
    /// - Parameter width: the width to which the cells of the last column are shortened; nil for whole cells
    func text(_ rows: [[String]], width: Int? = nil) -> String {
        guard let width else { return Self.text([headings] + rows, figures: figures) }
        let others = headings.indices.dropLast().reduce(0) { sum, column in
            sum + 2 + ([headings] + rows).reduce(0) { max($0, $1[column].width) }
        }
        let last = max(width - others, Self.minLastWidth)
        let short = rows.map { Array($0.dropLast()) + [$0.last?.shortened(to: last) ?? ""] }
        return Self.text([headings] + short, figures: figures)
    }

    /// Formats rows without headings. All rows must have the same number of columns.
    /// - Parameter minWidths: the minimum width of each column.
    static func text(_ rows: [[String]], figures: Set<Int>, minWidths: [Int]? = nil) -> String {
        let widths = (rows.first ?? []).indices.map { column in
            max(minWidths?[column] ?? 0, rows.map { $0[column].width }.max() ?? 0)
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

/// The format in which a value of the configuration is printed.
enum ValueFormat {
    /// Strings without quotes, objects and arrays over several lines.
    case pretty
    /// Strings without quotes, objects and arrays in one line.
    case compact

    /// The text of a value, without a final line end.
    /// - Parameter isTerminal: whether the text is for a terminal. If so, control characters in a string are escaped;
    ///   otherwise the string is unchanged.
    func text(_ value: JSONValue, isTerminal: Bool = false) -> String {
        if let string = value.string { return isTerminal ? string.printableLines : string }
        return self == .pretty ? value.prettyText : value.compactText
    }

    /// The text of a value in one line; empty if there is no value. A string with control characters is written as
    /// JSON.
    static func line(_ value: JSONValue?) -> String {
        guard let value else { return "" }
        if let string = value.string, !string.hasControls { return string }
        return value.compactText
    }
}

extension JSONValue {
    /// The value indented for people: two spaces per level, one member per line, numbers unchanged.
    var prettyText: String {
        var text = ""
        appendPretty(to: &text, indentation: "")
        return text
    }

    private func appendPretty(to text: inout String, indentation: String) {
        let inner = indentation + "  "
        switch kind {
        case .object where count > 0:
            text += "{"
            var separator = "\n"
            for (name, value) in members {
                text += "\(separator)\(inner)\(JSONValue.string(name).compactText): "
                value.appendPretty(to: &text, indentation: inner)
                separator = ",\n"
            }
            text += "\n\(indentation)}"
        case .array where count > 0:
            text += "["
            var separator = "\n"
            for value in elements {
                text += separator + inner
                value.appendPretty(to: &text, indentation: inner)
                separator = ",\n"
            }
            text += "\n\(indentation)]"
        default:
            text += compactText
        }
    }
}

/// Formats numbers for people.
enum Human {
    /// A duration in its two largest units: `35 s`, `2 h 5 min`, `3 d 4 h`.
    static func span(milliseconds: Int) -> String {
        let seconds = max(0, milliseconds) / 1000
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60)
        if days > 0 { return hours > 0 ? "\(days) d \(hours) h" : "\(days) d" }
        if hours > 0 { return minutes > 0 ? "\(hours) h \(minutes) min" : "\(hours) h" }
        if minutes >= 10 || (minutes > 0 && seconds % 60 == 0) { return "\(minutes) min" }
        if minutes > 0 { return "\(minutes) min \(seconds % 60) s" }
        return "\(seconds) s"
    }

    /// An elapsed time: like ``span(milliseconds:)``, but with tenths below ten seconds.
    static func elapsed(milliseconds: Int) -> String {
        guard milliseconds < 10_000 else { return span(milliseconds: milliseconds) }
        return "\(max(0, milliseconds) / 1000).\(max(0, milliseconds) / 100 % 10) s"
    }

    /// A time in the past: `35 s ago`, `just now`.
    static func ago(milliseconds: Int) -> String {
        milliseconds < 1000 ? "just now" : "\(span(milliseconds: milliseconds)) ago"
    }

    /// A time in the future: `in 35 s`, `now`.
    static func ahead(milliseconds: Int) -> String {
        milliseconds < 1000 ? "now" : "in \(span(milliseconds: milliseconds))"
    }

    /// A size in bytes, with decimal prefixes: `412 B`, `1.2 kB`, `38 MB`.
    static func bytes(_ count: Int) -> String {
        guard count >= 1000 else { return "\(count) B" }
        var tenths = count / 100
        for unit in ["kB", "MB", "GB"] {
            if tenths < 100 { return "\(tenths / 10).\(tenths % 10) \(unit)" }
            if tenths < 10_000 { return "\(tenths / 10) \(unit)" }
            tenths /= 1000
        }
        return "\(tenths / 10).\(tenths % 10) TB"
    }

    /// A number and its noun: `1 failure`, `5 failures`.
    static func count(_ number: Int, _ singular: String, _ plural: String) -> String {
        "\(number) \(number == 1 ? singular : plural)"
    }
}

extension Timestamp {
    /// The current time. It is comparable with times of the agent, because the agent runs on the same host.
    static var now: Timestamp {
        Timestamp(milliseconds: WallClock.system.now)
    }

    /// How long ago the time was, such as `35 s ago`.
    func ago(at now: Timestamp) -> String { Human.ago(milliseconds: now.milliseconds - milliseconds) }

    /// How long ago the time was, and the time: `35 s ago (2027-01-15 08:59:25)`.
    func dated(at now: Timestamp) -> String { "\(ago(at: now)) (\(local))" }

    /// The date and time in the time zone of this process: `2027-01-15 08:59:25`.
    var local: String {
        var seconds = time_t((Double(milliseconds) / 1000).rounded(.down))
        var parts = tm()
        guard localtime_r(&seconds, &parts) != nil else { return description }
        func padded(_ number: CInt) -> String { "\(number)".rightAligned(to: 2, with: "0") }
        let date = [padded(parts.tm_year + 1900), padded(parts.tm_mon + 1), padded(parts.tm_mday)]
        let time = [padded(parts.tm_hour), padded(parts.tm_min), padded(parts.tm_sec)]
        return "\(date.joined(separator: "-")) \(time.joined(separator: ":"))"
    }
}

/// Colors text if the terminal supports colors and the user does not disable them.
struct Style {
    let isColored: Bool

    init(isTerminal: Bool, noColor: String, terminal: String) {
        isColored = isTerminal && noColor.isEmpty && terminal != "dumb"
    }

    func strong(_ text: String) -> String { wrapped(text, .bold) }

    /// The name of a state in its color: green for good, yellow for a warning, red for a failure.
    func state(_ state: ConfigState) -> String {
        switch state {
        case .fresh, .refreshing: wrapped(state.rawValue, .green)
        case .stale, .initializing: wrapped(state.rawValue, .yellow)
        case .failed: wrapped(state.rawValue, .red)
        default: state.rawValue.printable
        }
    }

    func freshness(_ freshness: ImageFreshness) -> String {
        freshness == .stale ? warning(freshness.rawValue) : good(freshness.rawValue.printable)
    }

    func good(_ text: String) -> String { wrapped(text, .green) }

    func warning(_ text: String) -> String { wrapped(text, .yellow) }

    func problem(_ text: String) -> String { wrapped(text, .red) }

    private func wrapped(_ text: String, _ color: Color) -> String {
        isColored ? color.sequence + text + Color.none.sequence : text
    }

    /// The control sequences that this type writes.
    static let sequences = Color.allCases.map(\.sequence)

    /// Renditions of ECMA-48 (SGR).
    private enum Color: Int, CaseIterable {
        case none = 0
        case bold = 1
        case red = 31
        case green = 32
        case yellow = 33

        var sequence: String { "\u{1B}[\(rawValue)m" }
    }
}
