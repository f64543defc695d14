/// A version in the sense of Semantic Versioning 2.0.0, without its build metadata, which comparisons ignore.
struct SemanticVersion {
    /// Decimal numbers without leading zeros, of any length.
    private let numbers: [Substring.UTF8View]
    private let prerelease: [Substring.UTF8View]

    /// Parses a version. A leading `v` or `V` is ignored, and missing minor and patch numbers are 0. Returns nil if the
    /// text is not a version.
    init?(_ text: String) {
        var rest = text.utf8[...]
        if let first = rest.first, first == UInt8(ascii: "v") || first == UInt8(ascii: "V") { rest.removeFirst() }
        let build = rest.firstIndex(of: UInt8(ascii: "+"))
        if let build {
            guard Self.split(rest[rest.index(after: build)...]).allSatisfy(Self.isIdentifier) else { return nil }
            rest = rest[..<build]
        }
        let hyphen = rest.firstIndex(of: UInt8(ascii: "-"))
        var numbers = Self.split(rest[..<(hyphen ?? rest.endIndex)])
        guard numbers.count <= 3, numbers.allSatisfy({ Self.isNumber($0) && Self.isCanonical($0) }) else { return nil }
        while numbers.count < 3 { numbers.append(Substring("0").utf8) }
        self.numbers = numbers
        guard let hyphen else {
            prerelease = []
            return
        }
        prerelease = Self.split(rest[rest.index(after: hyphen)...])
        guard prerelease.allSatisfy({ Self.isIdentifier($0) && (!Self.isNumber($0) || Self.isCanonical($0)) }) else {
            return nil
        }
    }

    /// Evaluates `self OPERATOR other`. Returns nil if the operator does not exist.
    func satisfies(_ comparison: String, _ other: SemanticVersion) -> Bool? {
        switch comparison {
        case "=": order(other) == 0
        case "!=": order(other) != 0
        case "<": order(other) < 0
        case "<=": order(other) <= 0
        case ">": order(other) > 0
        case ">=": order(other) >= 0
        case "^": Self.order(numbers[0], other.numbers[0]) == 0
        case "~": Self.order(numbers[0], other.numbers[0]) == 0 && Self.order(numbers[1], other.numbers[1]) == 0
        default: nil
        }
    }

    /// Negative if this version precedes the other one, 0 if they are equal, positive otherwise.
    private func order(_ other: SemanticVersion) -> Int {
        for (number, otherNumber) in zip(numbers, other.numbers) {
            let order = Self.order(number, otherNumber)
            if order != 0 { return order }
        }
        if prerelease.isEmpty || other.prerelease.isEmpty {
            return (prerelease.isEmpty ? 1 : 0) - (other.prerelease.isEmpty ? 1 : 0)
        }
        for (identifier, otherIdentifier) in zip(prerelease, other.prerelease) {
            let order = Self.order(identifier, otherIdentifier)
            if order != 0 { return order }
        }
        return prerelease.count - other.prerelease.count
    }

    /// Numbers precede other identifiers.
    private static func order(_ left: Substring.UTF8View, _ right: Substring.UTF8View) -> Int {
        switch (isNumber(left), isNumber(right)) {
        case (true, false): return -1
        case (false, true): return 1
        case (true, true) where left.count != right.count: return left.count - right.count
        default: return left.elementsEqual(right) ? 0 : left.lexicographicallyPrecedes(right) ? -1 : 1
        }
    }

    private static func split(_ text: Substring.UTF8View) -> [Substring.UTF8View] {
        text.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    }

    private static func isNumber(_ text: Substring.UTF8View) -> Bool {
        !text.isEmpty && text.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    }

    private static func isCanonical(_ number: Substring.UTF8View) -> Bool {
        number.count == 1 || number.first != UInt8(ascii: "0")
    }

    private static func isIdentifier(_ text: Substring.UTF8View) -> Bool {
        !text.isEmpty
            && text.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }
}
