import TestSupport

extension SeededGenerator {
    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }

    mutating func pick<C: Collection>(_ choices: C) -> C.Element {
        choices[choices.index(choices.startIndex, offsetBy: Int.random(in: 0..<choices.count, using: &self))]
    }
}

/// Generates JSON texts with all escapes, duplicate names, whitespace, and small and large objects.
struct Generator {
    var random: SeededGenerator
    /// The percentage of positions between tokens at which whitespace is generated.
    var whitespace = 10
    /// The percentage of members that repeat an earlier name.
    var duplicates = 5
    /// The percentage of values that are null.
    var nulls = 10
    /// The percentage of objects that have enough members for a ``NameTable``.
    var wide = 5
    /// The number of different member names. It is small, so that documents have names in common.
    var names = 60

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
    }

    mutating func document(depth: Int = 5) -> [UInt8] {
        var text = ""
        value(depth, &text)
        return Array(text.utf8)
    }

    mutating func object(depth: Int = 5) -> [UInt8] {
        var text = ""
        object(depth, &text)
        return Array(text.utf8)
    }

    private mutating func value(_ depth: Int, _ text: inout String) {
        space(&text)
        defer { space(&text) }
        if random.chance(nulls) {
            text += "null"
            return
        }
        switch Int.random(in: 0..<(depth > 0 ? 10 : 5), using: &random) {
        case 0: text += random.pick(["true", "false"])
        case 1, 2: text += number()
        case 3, 4: text += string()
        case 5, 6: array(depth - 1, &text)
        default: object(depth - 1, &text)
        }
    }

    private mutating func array(_ depth: Int, _ text: inout String) {
        text += "["
        let count = Int.random(in: 0..<6, using: &random)
        if count == 0 { space(&text) }
        for index in 0..<count {
            if index > 0 { text += "," }
            value(depth, &text)
        }
        text += "]"
    }

    private mutating func object(_ depth: Int, _ text: inout String) {
        text += "{"
        let isWide = random.chance(wide)
        let count = isWide ? Int.random(in: 25..<90, using: &random) : Int.random(in: 0..<8, using: &random)
        if count == 0 { space(&text) }
        var used: [Int] = []
        for index in 0..<count {
            if index > 0 { text += "," }
            space(&text)
            var name = Int.random(in: 0..<(isWide ? names * 3 : names), using: &random)
            if random.chance(duplicates), !used.isEmpty {
                name = random.pick(used)
            } else {
                while used.contains(name) { name += 1 }
            }
            used.append(name)
            text += self.name(name)
            space(&text)
            text += ":"
            value(isWide ? min(depth, 1) : depth, &text)
        }
        text += "}"
    }

    /// Name number `index`, sometimes with an escape.
    private mutating func name(_ index: Int) -> String {
        let plain = ["", "a", "b\\n", "größe", "a/b", "~", "limit.of.search", "日本"]
        let stem = index < plain.count ? plain[index] : "name\(index)"
        guard random.chance(10), let first = stem.unicodeScalars.first, first.isASCII, first != "\\" else {
            return "\"\(stem)\""
        }
        let hex = String(first.value, radix: 16, uppercase: random.chance(50))
        return "\"\\u00\(hex)\(stem.dropFirst())\""
    }

    private mutating func number() -> String {
        let fixed = ["0", "-0", "1", "-1", "0.1000", "1e400", "12345678901234567890", "-0.0e-0", "9007199254740993"]
        if random.chance(40) { return random.pick(fixed) }
        return String(Int.random(in: -1_000_000...1_000_000, using: &random))
    }

    private mutating func string() -> String {
        let parts = [
            "plain", "a", " ", "\\n", "\\\"", "\\\\", "\\/", "\\u0000", "\\uD83D\\uDE00", "\\u00e9", "é", "日本語", "😀",
            "a longer run of plain text to cross a word or two", "\u{7F}", "e\u{301}", "\u{10FFFF}",
        ]
        var text = "\""
        for _ in 0..<Int.random(in: 0..<5, using: &random) { text += random.pick(parts) }
        return text + "\""
    }

    private mutating func space(_ text: inout String) {
        guard random.chance(whitespace) else { return }
        text += random.pick([" ", "\n", "\t", "\r\n", "\n          "])
    }
}
