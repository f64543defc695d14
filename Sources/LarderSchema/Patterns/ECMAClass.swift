/// Character classes, and the escapes that classes and other patterns have in common.
extension ECMAPattern {
    /// The meaning of an escape.
    enum Escape {
        case scalar(Unicode.Scalar)
        /// A set of characters, written as the content of a character class in PCRE2's syntax. It contains ranges and
        /// properties, but not the sets of PCRE2 such as `\W`: together with a property in a class, they match wrong
        /// characters beyond U+00FF.
        case set(String)
        /// Half of a surrogate pair. It matches nothing, because valid text does not contain it.
        case nothing
    }

    /// Reads an escape after its backslash.
    mutating func characterEscape() throws(PatternError) -> Escape {
        let start = index - 1
        guard let scalar = next else { throw PatternError("the pattern ends with a backslash", at: start) }
        index += 1
        switch scalar {
        case "d": return .set("0-9")
        case "D": return .set(#"\x{0}-\x{2f}\x{3a}-\x{10ffff}"#)
        case "w": return .set("0-9A-Z_a-z")
        case "W": return .set(#"\x{0}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{5e}\x{60}\x{7b}-\x{10ffff}"#)
        case "s": return .set(Self.space)
        case "S": return .set(Self.notSpace)
        case "p", "P": return .set("\\\(scalar){\(try property())}")
        case "t": return .scalar("\t")
        case "n": return .scalar("\n")
        case "v": return .scalar("\u{b}")
        case "f": return .scalar("\u{c}")
        case "r": return .scalar("\r")
        case "0":
            if let digit = next, ("0"..."9").contains(digit) {
                throw PatternError("octal escapes are not part of ECMA-262", at: start)
            }
            return .scalar("\0")
        case "c":
            guard let letter = next, letter.isASCII, letter.properties.isAlphabetic else {
                throw PatternError("\"\\c\" must be followed by a letter", at: start)
            }
            index += 1
            return .scalar(Unicode.Scalar(UInt8(letter.value & 31)))
        case "x":
            guard let value = hexadecimal(2), let scalar = Unicode.Scalar(value) else {
                throw PatternError("\"\\x\" must be followed by two hexadecimal digits", at: start)
            }
            return .scalar(scalar)
        case "u": return try unicodeEscape(start)
        default:
            guard scalar.isASCII, !scalar.properties.isAlphabetic, !("0"..."9").contains(scalar) else {
                throw PatternError("\"\\\(scalar)\" is not an escape of ECMA-262", at: start)
            }
            return .scalar(scalar)
        }
    }

    private mutating func unicodeEscape(_ start: Int) throws(PatternError) -> Escape {
        if skip("{") {
            let digits = text[index...].prefix { $0 != "}" }
            index += digits.count
            guard skip("}"), let value = UInt32(String(String.UnicodeScalarView(digits)), radix: 16), value <= 0x10ffff
            else { throw PatternError("\"\\u{…}\" must contain a code point in hexadecimal digits", at: start) }
            return Unicode.Scalar(value).map { .scalar($0) } ?? .nothing
        }
        guard let unit = hexadecimal(4) else {
            throw PatternError("\"\\u\" must be followed by four hexadecimal digits", at: start)
        }
        if let scalar = Unicode.Scalar(unit) { return .scalar(scalar) }
        let end = index
        if unit < 0xdc00, skip("\\u"), let low = hexadecimal(4), (0xdc00...0xdfff).contains(low),
            let scalar = Unicode.Scalar(0x10000 + (unit - 0xd800) << 10 + (low - 0xdc00))
        {
            return .scalar(scalar)
        }
        index = end
        return .nothing
    }

    /// Reads exactly `count` hexadecimal digits; nil if there are fewer.
    private mutating func hexadecimal(_ count: Int) -> UInt32? {
        let digits = text[index...].prefix(count)
        guard digits.count == count, digits.allSatisfy({ $0.isASCII && $0.properties.isASCIIHexDigit }) else {
            return nil
        }
        index += count
        return UInt32(String(String.UnicodeScalarView(digits)), radix: 16)
    }

    /// Reads `{NAME}` or `{NAME=VALUE}` after `\p`, and returns the name that PCRE2 uses.
    private mutating func property() throws(PatternError) -> String {
        let start = index - 2
        guard skip("{") else { throw PatternError("\"\\p\" must be followed by \"{\"", at: start) }
        let content = String(String.UnicodeScalarView(text[index...].prefix { $0 != "}" }))
        index += content.unicodeScalars.count
        guard skip("}"), let property = UnicodeProperty.translate(content) else {
            throw PatternError("\"\\p{\(content)}\" is not a Unicode property", at: start)
        }
        return property
    }

    /// Reads a class after its `[`.
    mutating func characterClass() throws(PatternError) {
        let start = index - 1
        let isNegated = skip("^")
        var content = ""
        while next != "]" {
            guard next != nil else { throw PatternError("\"[\" has no \"]\"", at: start) }
            let first = try classAtom()
            guard next == "-", let last = peek(1), last != "]" else {
                content += Self.member(first)
                continue
            }
            let position = index
            index += 1
            let second = try classAtom()
            switch (first, second) {
            case (.scalar(let low), .scalar(let high)):
                guard low <= high else { throw PatternError("a range is in the wrong order", at: position) }
                content += Self.escaped(low) + "-" + Self.escaped(high)
            case (.set, _), (_, .set):
                // The hyphen stands for itself. Patterns such as `[\w-.]` are common.
                for atom in [first, .scalar("-"), second] { content += Self.member(atom) }
            default: throw PatternError("a range with half of a surrogate pair is not supported", at: position)
            }
        }
        index += 1
        switch (content.isEmpty, isNegated) {
        case (true, false): output += "(?!)"
        case (true, true): output += #"[\x{0}-\x{10ffff}]"#
        default: output += (isNegated ? "[^" : "[") + content + "]"
        }
    }

    private mutating func classAtom() throws(PatternError) -> Escape {
        guard let scalar = next else { return .nothing }
        index += 1
        guard scalar == "\\" else { return .scalar(scalar) }
        switch next {
        case "b":
            index += 1
            return .scalar("\u{8}")
        case "-":
            index += 1
            return .scalar("-")
        default: return try characterEscape()
        }
    }

    /// Returns an escape or character as part of the content of a class.
    private static func member(_ atom: Escape) -> String {
        switch atom {
        case .scalar(let scalar): escaped(scalar)
        case .set(let set): set
        case .nothing: ""
        }
    }

    private static func escaped(_ scalar: Unicode.Scalar) -> String { "\\x{\(String(scalar.value, radix: 16))}" }
}
