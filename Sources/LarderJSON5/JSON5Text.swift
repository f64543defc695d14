import LarderJSON

/// A document and a read position in it.
package struct JSON5Text {
    private let scalars: [Unicode.Scalar]
    /// The read position, in Unicode scalars.
    private(set) var offset = 0
    private var cancellation: JSON5Cancellation

    init(_ scalars: [Unicode.Scalar], unless isCancelled: @escaping () -> Bool) {
        self.scalars = scalars
        cancellation = JSON5Cancellation(isCancelled)
    }

    /// Every loop over characters or values calls this method.
    ///
    /// - Throws: ``JSON5Error`` with the code `cancelled`
    mutating func checkCancellation() throws(JSON5Error) { try cancellation.check(at: offset) }

    /// The character at the position; nil at the end.
    var peek: Unicode.Scalar? { scalar(0) }

    private func scalar(_ distance: Int) -> Unicode.Scalar? {
        offset + distance < scalars.count ? scalars[offset + distance] : nil
    }

    mutating func advance() {
        offset += 1
    }

    /// Moves past the next character if it is `expected`. Returns whether it was.
    mutating func take(_ expected: Unicode.Scalar) -> Bool {
        guard peek == expected else { return false }
        offset += 1
        return true
    }

    // MARK: Errors

    /// - Parameter quotation: the part of `reason` that quotes the document
    func failure(_ reason: String, quotation: String? = nil, at offset: Int) -> JSON5Error {
        JSON5Error(.syntax, reason, quotation: quotation, offset: offset)
    }

    /// An error that shows the character at the read position, and what should be there instead.
    func unexpected(_ expected: String, quotation: String? = nil) -> JSON5Error {
        let found = peek.map { $0 == "\"" ? "a quotation mark" : "\"\(JSON5Shown.printable($0))\"" }
        return failure(
            "found \(found ?? "the end of the text") where \(expected) should be", quotation: quotation, at: offset)
    }

    func line(of offset: Int) -> Int { Self.place(of: offset, in: scalars).line }

    /// The line and column of an offset, both from 1. CR LF is one line break.
    package static func place(of offset: Int, in scalars: [Unicode.Scalar]) -> (line: Int, column: Int) {
        var line = 1
        var start = 0
        for index in 0..<min(offset, scalars.count) where isLineBreak(scalars[index]) {
            if scalars[index] == "\r", index + 1 < scalars.count, scalars[index + 1] == "\n" { continue }
            line += 1
            start = index + 1
        }
        return (line, offset - start + 1)
    }

    // MARK: Space and comments

    /// Moves past white space and comments.
    mutating func skipSpace() throws(JSON5Error) {
        while let scalar = peek {
            try checkCancellation()
            if Self.isSpace(scalar) {
                offset += 1
            } else if scalar == "/", self.scalar(1) == "/" {
                while let inside = peek, !Self.isLineBreak(inside) {
                    try checkCancellation()
                    offset += 1
                }
            } else if scalar == "/", self.scalar(1) == "*" {
                let start = offset
                offset += 2
                while peek != "*" || self.scalar(1) != "/" {
                    try checkCancellation()
                    guard peek != nil else {
                        throw failure("the comment that begins here is never closed; add \"*/\"", at: start)
                    }
                    offset += 1
                }
                offset += 2
            } else {
                return
            }
        }
    }

    static func isLineBreak(_ scalar: Unicode.Scalar) -> Bool {
        scalar == "\n" || scalar == "\r" || scalar == "\u{2028}" || scalar == "\u{2029}"
    }

    private static func isSpace(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case " ", "\t", "\u{b}", "\u{c}", "\u{feff}": true
        default: isLineBreak(scalar) || scalar.properties.generalCategory == .spaceSeparator
        }
    }

    // MARK: Names

    /// Whether the character can begin an unquoted name (ECMAScript 5.1, IdentifierName).
    static func beginsName(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "a"..."z", "A"..."Z", "_", "$", "\\": true
        default: scalar.value > 0x7f && scalar.properties.isIDStart
        }
    }

    private static func continuesName(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "0"..."9", "\u{200c}", "\u{200d}": true
        default: beginsName(scalar) || (scalar.value > 0x7f && scalar.properties.isIDContinue)
        }
    }

    /// Parses an unquoted name. An escape such as `\u0062` denotes a character that the name could also contain as is.
    mutating func name() throws(JSON5Error) -> String {
        var name = String.UnicodeScalarView()
        while let scalar = peek, Self.continuesName(scalar) {
            try checkCancellation()
            let start = offset
            offset += 1
            guard scalar == "\\" else {
                name.append(scalar)
                continue
            }
            guard take("u") else {
                throw failure("an escape in a name must be \"\\u\" and 4 hexadecimal digits", at: start)
            }
            let decoded = try codePoint(from: start)
            guard decoded != "\\", name.isEmpty ? Self.beginsName(decoded) : Self.continuesName(decoded) else {
                throw failure("a name with this character needs quotation marks around it", at: start)
            }
            name.append(decoded)
        }
        return String(name)
    }

    func slice(_ start: Int) -> String {
        var text = String.UnicodeScalarView()
        text.append(contentsOf: scalars[start..<offset])
        return String(text)
    }
}

/// Parses strings and numbers. Both have the syntax of JSON (RFC 8259), except that a string may be in single quotation
/// marks, and may contain the escape `\'`.
extension JSON5Text {
    /// Parses a string in single or double quotation marks.
    mutating func string() throws(JSON5Error) -> String {
        let start = offset
        let quote = peek
        var content = String.UnicodeScalarView()
        advance()
        while let scalar = peek, scalar != quote, scalar != "\n", scalar != "\r" {
            try checkCancellation()
            advance()
            content.append(scalar == "\\" ? try escape() : scalar)
        }
        guard peek == quote, peek != nil else {
            throw failure("the string that begins here is not closed on its line; add a quotation mark", at: start)
        }
        advance()
        return String(content)
    }

    /// Parses the rest of an escape, after the backslash.
    private mutating func escape() throws(JSON5Error) -> Unicode.Scalar {
        let start = offset - 1
        guard let kind = peek else { return "\\" }  // the text ends inside the string; string() reports it
        advance()
        switch kind {
        case "\"", "'", "\\", "/": return kind
        case "b": return "\u{8}"
        case "f": return "\u{c}"
        case "n": return "\n"
        case "r": return "\r"
        case "t": return "\t"
        case "u": return try codePoint(from: start)
        default:
            let shown = JSON5Shown.printable(kind)
            throw failure("\"\\\(shown)\" is not a JSON escape; write \"\\\\\" for a backslash", at: start)
        }
    }

    /// Parses the rest of an escape, after `\u`: four hexadecimal digits and, if they denote the first half of a
    /// surrogate pair, the `\u` escape of the second half.
    mutating func codePoint(from start: Int) throws(JSON5Error) -> Unicode.Scalar {
        let first = try hexadecimal(from: start)
        if let scalar = Unicode.Scalar(first) { return scalar }
        if first < 0xdc00, take("\\"), take("u") {
            let second = try hexadecimal(from: start)
            if (0xdc00..<0xe000).contains(second),
                let scalar = Unicode.Scalar(0x10000 + (first - 0xd800) << 10 + (second - 0xdc00))
            {
                return scalar
            }
        }
        throw failure("\"\\u\(String(first, radix: 16))\" is half of a surrogate pair; add the other half", at: start)
    }

    private mutating func hexadecimal(from start: Int) throws(JSON5Error) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let scalar = peek, scalar.isASCII, let digit = Character(scalar).hexDigitValue else {
                throw failure("this escape needs 4 hexadecimal digits", at: start)
            }
            value = value << 4 | UInt32(digit)
            advance()
        }
        return value
    }

    /// Parses a number. The number extends to the next character that cannot be part of a number or a word, so `1_000`
    /// and `5s` are errors.
    mutating func number() throws(JSON5Error) -> JSON5Value.Content {
        let start = offset
        while let scalar = peek, Self.continuesNumber(scalar) {
            try checkCancellation()
            advance()
        }
        let text = slice(start)
        guard (try? JSONValue(parsing: text))?.kind == .number, let value = Double(text) else {
            let shown = JSON5Shown.quoted(text)
            throw failure(
                "\(shown) is not a number; write it like 30, 0.5 or 1e6, or put it in quotes", quotation: shown,
                at: start)
        }
        return .number(value, text: text)
    }

    private static func continuesNumber(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "0"..."9", "a"..."z", "A"..."Z", "_", ".", "+", "-": true
        default: false
        }
    }
}

/// Checks at intervals whether a parse is cancelled.
struct JSON5Cancellation {
    /// The number of Unicode scalars between two checks. To parse them takes less than 10 ms.
    private static let interval = 1 << 16

    private let isCancelled: () -> Bool
    private var next = interval

    init(_ isCancelled: @escaping () -> Bool) { self.isCancelled = isCancelled }

    /// - Parameter offset: the number of Unicode scalars that were parsed so far
    /// - Throws: ``JSON5Error`` with the code `cancelled`
    @inline(__always)
    mutating func check(at offset: Int) throws(JSON5Error) {
        if offset >= next { try checkNow(offset) }
    }

    @inline(never)
    private mutating func checkNow(_ offset: Int) throws(JSON5Error) {
        next = offset + Self.interval
        if isCancelled() { throw JSON5Error(.cancelled, "the parse was cancelled", offset: offset) }
    }
}
