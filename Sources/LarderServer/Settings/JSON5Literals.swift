/// Strings and numbers of JSON5 (spec.json5.org, sections 5 and 6).
extension JSON5Text {
    /// Reads a string, in either kind of quotation marks.
    mutating func string() throws(SettingsError) -> String {
        let start = offset
        let quote = peek
        var content = String.UnicodeScalarView()
        advance()
        while let scalar = peek, scalar != quote {
            if scalar == "\\" {
                if let meant = try escape() { content.append(meant) }
            } else if scalar == "\n" || scalar == "\r" {
                break
            } else {
                content.append(scalar)
                advance()
            }
        }
        guard peek == quote, peek != nil else {
            throw failure("the string that begins here is not closed on its line; add a quotation mark", at: start)
        }
        advance()
        return String(content)
    }

    /// Reads an escape; `nil` when it stands for nothing (a line that goes on in the next).
    private mutating func escape() throws(SettingsError) -> Unicode.Scalar? {
        let start = offset
        advance()
        guard let kind = peek else { return nil }  // the string ends with the text, which string() reports
        advance()
        switch kind {
        case "b": return "\u{8}"
        case "f": return "\u{c}"
        case "n": return "\n"
        case "r": return "\r"
        case "t": return "\t"
        case "v": return "\u{b}"
        case "0":
            if case ("0"..."9")? = peek { throw failure("\"\\0\" must not be followed by a digit", at: start) }
            return "\0"
        case "1"..."9":
            throw failure("\"\\\(kind)\" is no escape; write \"\\x3\(kind)\" or leave out the \"\\\"", at: start)
        case "x": return Unicode.Scalar(UInt8(truncatingIfNeeded: try hexadecimal(2, from: start)))
        case "u": return try codePoint(from: start)
        case "\r":
            _ = take("\n")
            return nil
        case "\n", "\u{2028}", "\u{2029}": return nil
        default: return kind
        }
    }

    /// What stands behind `\u`: a code point, or both halves of one beyond U+FFFF.
    private mutating func codePoint(from start: Int) throws(SettingsError) -> Unicode.Scalar {
        let first = try hexadecimal(4, from: start)
        if let scalar = Unicode.Scalar(first) { return scalar }
        if first < 0xdc00, take("\\"), take("u") {
            let second = try hexadecimal(4, from: start)
            if (0xdc00..<0xe000).contains(second),
                let scalar = Unicode.Scalar(0x10000 + (first - 0xd800) << 10 + (second - 0xdc00))
            {
                return scalar
            }
        }
        throw failure("\"\\u\(String(first, radix: 16))\" is half of a character; give the other half too", at: start)
    }

    private mutating func hexadecimal(_ count: Int, from start: Int) throws(SettingsError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<count {
            guard let digit = peek.flatMap(Self.hexadecimalDigit) else {
                throw failure("this escape needs \(count) hexadecimal digits", at: start)
            }
            value = value << 4 | UInt32(digit)
            advance()
        }
        return value
    }

    private static func hexadecimalDigit(_ scalar: Unicode.Scalar) -> Int? {
        scalar.isASCII ? Character(scalar).hexDigitValue : nil
    }

    /// Reads a number.
    mutating func number() throws(SettingsError) -> SettingsValue.Content {
        let start = offset
        let isNegative = peek == "-"
        if peek == "-" || peek == "+" { advance() }
        let magnitude: Double
        if let scalar = peek, Self.beginsName(scalar) {
            magnitude = try namedNumber(start)
        } else if take("0"), peek == "x" || peek == "X" {
            advance()
            magnitude = try hexadecimalNumber(start)
        } else {
            magnitude = try decimalNumber(start)
        }
        // What touches the number would make another number of it in a reader's eye: 1_000, 010, 5s.
        if let next = peek, Self.beginsName(next) || ("0"..."9").contains(next) || next == "." {
            throw malformedNumber(start)
        }
        return .number(isNegative ? -magnitude : magnitude, text: slice(start))
    }

    private mutating func namedNumber(_ start: Int) throws(SettingsError) -> Double {
        switch try name() {
        case "Infinity": return .infinity
        case "NaN": return .nan
        default: throw malformedNumber(start)
        }
    }

    private mutating func hexadecimalNumber(_ start: Int) throws(SettingsError) -> Double {
        var value = 0.0
        let digits = offset
        while let digit = peek.flatMap(Self.hexadecimalDigit) {
            value = value * 16 + Double(digit)
            advance()
        }
        guard offset > digits else { throw malformedNumber(start) }
        return value
    }

    /// Digits with an optional point and exponent. A leading 0 has been taken already.
    private mutating func decimalNumber(_ start: Int) throws(SettingsError) -> Double {
        let digits = offset
        let hasZero = digits > start && slice(start).hasSuffix("0")
        if !hasZero { skipDigits() }
        var count = offset - digits + (hasZero ? 1 : 0)
        if take(".") { count += skipDigits() }
        guard count > 0 else { throw malformedNumber(start) }
        if take("e") || take("E") {
            if peek == "-" || peek == "+" { advance() }
            guard skipDigits() > 0 else { throw malformedNumber(start) }
        }
        let text = slice(start)
        guard let value = Double(text.drop { $0 == "-" || $0 == "+" }) else { throw malformedNumber(start) }
        return value
    }

    @discardableResult
    private mutating func skipDigits() -> Int {
        let start = offset
        while case ("0"..."9")? = peek { advance() }
        return offset - start
    }

    private mutating func malformedNumber(_ start: Int) -> SettingsError {
        while let scalar = peek, Self.continuesNumber(scalar) { advance() }
        return failure(
            "\(SettingsText.quoted(slice(start))) is no number; write it like 30, 0.5, 1e6 or 0xff, or put it in quotes",
            at: start)
    }

    private static func continuesNumber(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "0"..."9", "a"..."z", "A"..."Z", "_", ".", "+", "-": true
        default: false
        }
    }
}
