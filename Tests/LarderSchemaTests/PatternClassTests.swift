import Testing

@testable import LarderSchema

/// Compares random character classes with sets that are computed from the properties of the standard library.
@Suite("Character classes")
struct PatternClassTests {
    @Test("50,000 random classes match the characters of the set that they describe")
    func randomClasses() throws {
        var random = ClassGenerator(seed: 43)
        var matcher = PatternMatcher()
        var differences: [String] = []
        for _ in 0..<50_000 {
            let (text, contains) = random.characterClass()
            let pattern = try Pattern("^" + text + "$")
            for _ in 0..<12 {
                let scalar = random.element(of: ClassGenerator.samples)
                var subject = String(scalar)
                let found = subject.withUTF8 { matcher.search($0, for: pattern) } == .matches
                if found != contains(scalar) {
                    differences.append("\(text) and U+\(String(scalar.value, radix: 16)): \(found)")
                }
            }
        }
        #expect(differences.isEmpty, "\(differences.count) differences, such as \(differences.prefix(5))")
    }
}

/// Generates character classes, each with the set that it describes.
private struct ClassGenerator {
    typealias Characters = @Sendable (Unicode.Scalar) -> Bool

    /// Characters of several categories, and those at the ends of the sets of `\d`, `\w` and `\s`. Their categories are
    /// the same in all versions of Unicode that are in use.
    static let samples: [Unicode.Scalar] = [
        "\0", "\u{8}", "\t", "\r", "\u{e}", " ", "!", "-", "/", "0", "9", ":", "@", "A", "Z", "[", "^", "_", "`", "a",
        "z",
        "{", "\u{7f}", "\u{85}", "\u{a0}", "\u{a1}", "ª", "É", "é", "ÿ", "\u{100}", "Ω", "α", "я", "Я", "٣", "ʰ", "ǅ",
        "中",
        "\u{1680}", "\u{2000}", "\u{200a}", "\u{200b}", "\u{2028}", "\u{2029}", "\u{202f}", "\u{205f}", "\u{3000}",
        "\u{d7ff}", "\u{e000}", "\u{feff}", "\u{ffff}", "\u{10000}", "𝟘", "😀", "\u{10ffff}",
    ]

    private static let sets: [(text: String, contains: Characters)] = [
        (#"\d"#, { isDigit($0) }), (#"\D"#, { !isDigit($0) }), (#"\w"#, { isWord($0) }), (#"\W"#, { !isWord($0) }),
        (#"\s"#, { isSpace($0) }), (#"\S"#, { !isSpace($0) }),
        (#"\p{Nd}"#, { $0.properties.generalCategory == .decimalNumber }),
        (#"\P{Nd}"#, { $0.properties.generalCategory != .decimalNumber }),
        (#"\p{L}"#, { isLetter($0) }), (#"\P{Letter}"#, { !isLetter($0) }),
        (#"\p{Lu}"#, { $0.properties.generalCategory == .uppercaseLetter }),
        (#"\P{Lu}"#, { $0.properties.generalCategory != .uppercaseLetter }),
        (#"\p{Zs}"#, { $0.properties.generalCategory == .spaceSeparator }),
        (#"\P{gc=Space_Separator}"#, { $0.properties.generalCategory != .spaceSeparator }),
    ]

    private var state: UInt64

    init(seed: UInt64) { state = seed }

    /// SplitMix64.
    private mutating func next(below bound: Int) -> Int {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return Int((mixed ^ (mixed >> 31)) % UInt64(bound))
    }

    mutating func element<T>(of elements: [T]) -> T { elements[next(below: elements.count)] }

    mutating func characterClass() -> (text: String, contains: Characters) {
        let isNegated = next(below: 2) == 0
        var text = isNegated ? "[^" : "["
        var parts: [Characters] = []
        for _ in 0..<next(below: 5) {
            switch next(below: 4) {
            case 0:
                let scalar = element(of: Self.samples)
                text += spelled(scalar)
                parts.append { $0 == scalar }
            case 1:
                let (first, second) = (element(of: Self.samples), element(of: Self.samples))
                let (low, high) = (min(first, second), max(first, second))
                text += spelled(low) + "-" + spelled(high)
                parts.append { low <= $0 && $0 <= high }
            default:
                let set = element(of: Self.sets)
                text += set.text
                parts.append(set.contains)
            }
        }
        let members = parts
        return (text + "]", { scalar in members.contains { $0(scalar) } != isNegated })
    }

    private mutating func spelled(_ scalar: Unicode.Scalar) -> String {
        if scalar.properties.isAlphabetic, next(below: 2) == 0 { return String(scalar) }
        return "\\u{" + String(scalar.value, radix: 16) + "}"
    }

    private static func isDigit(_ scalar: Unicode.Scalar) -> Bool { (0x30...0x39).contains(scalar.value) }

    private static func isWord(_ scalar: Unicode.Scalar) -> Bool {
        isDigit(scalar) || scalar == "_" || (scalar.isASCII && scalar.properties.isAlphabetic)
    }

    /// `WhiteSpace` and `LineTerminator` of ECMA-262.
    private static func isSpace(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x9...0xd, 0xfeff, 0x2028, 0x2029: true
        default: scalar.properties.generalCategory == .spaceSeparator
        }
    }

    private static func isLetter(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: true
        default: false
        }
    }
}
