import LarderJSON

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
