import LarderJSON

/// Translates regular expressions from the syntax of ECMA-262, with its `u` flag, to that of PCRE2.
///
/// Every construct is parsed and written anew, so that a pattern cannot use syntax that only PCRE2 has. Unlike in
/// ECMA-262, any escaped punctuation character and a lone `]` stand for themselves, because schemas in use need it.
struct ECMAPattern {
    /// Returns the pattern in the syntax of PCRE2.
    static func translate(_ pattern: String) throws(PatternError) -> String {
        var translator = ECMAPattern(Array(pattern.unicodeScalars))
        try translator.readGroupNames()
        try translator.disjunction()
        return translator.output
    }

    /// The characters that `\s` matches: white space and line terminators.
    static let space =
        #"\x{9}-\x{d}\x{20}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}"#
    /// The characters that `\S` matches: all but ``space``.
    static let notSpace =
        #"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}"#
        + #"\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}"#
    private static let lineTerminators = #"\x{a}\x{d}\x{2028}\x{2029}"#
    /// The largest number of repetitions that PCRE2 permits in a quantifier.
    private static let maxRepetitions = 65_535
    private static let maxNesting = 200

    let text: [Unicode.Scalar]
    var index = 0
    var output = ""
    private var nesting = 0
    /// The number of each named group.
    private var groups: [ExactText: Int] = [:]
    private var groupCount = 0

    init(_ text: [Unicode.Scalar]) { self.text = text }

    var next: Unicode.Scalar? { index < text.count ? text[index] : nil }

    func peek(_ distance: Int) -> Unicode.Scalar? {
        index + distance < text.count ? text[index + distance] : nil
    }

    /// Skips `prefix` if the rest of the pattern begins with it. Returns whether it did.
    mutating func skip(_ prefix: String) -> Bool {
        let scalars = Array(prefix.unicodeScalars)
        guard text[index...].starts(with: scalars) else { return false }
        index += scalars.count
        return true
    }

    /// Writes a character in a form that matches only this character.
    mutating func literal(_ scalar: Unicode.Scalar) {
        if scalar.properties.isAlphabetic || (0x30...0x39).contains(scalar.value) || scalar.value > 0x7f {
            output.unicodeScalars.append(scalar)
        } else {
            output += "\\x{\(String(scalar.value, radix: 16))}"
        }
    }

    /// Finds all groups before the translation, because a reference to a group may precede it.
    private mutating func readGroupNames() throws(PatternError) {
        var isInClass = false
        while let scalar = next {
            index += 1
            switch scalar {
            case "\\": index += 1
            case "[": isInClass = true
            case "]": isInClass = false
            case "(" where !isInClass:
                guard next == "?" else {
                    groupCount += 1
                    continue
                }
                guard peek(1) == "<", peek(2) != "=", peek(2) != "!" else { continue }
                groupCount += 1
                index += 2
                let start = index
                let name = try groupName()
                if groups.updateValue(groupCount, forKey: ExactText(name)) != nil {
                    throw PatternError("the group name \"\(name)\" is used twice", at: start)
                }
            default: break
            }
        }
        index = 0
    }

    /// Reads a group name up to and including `>`.
    private mutating func groupName() throws(PatternError) -> String {
        let start = index
        var name = String.UnicodeScalarView()
        while let scalar = next, scalar != ">" {
            let properties = scalar.properties
            guard scalar == "$" || scalar == "_" || properties.isIDStart || (index > start && properties.isIDContinue)
            else { throw PatternError("a group name is invalid", at: index) }
            name.append(scalar)
            index += 1
        }
        guard next == ">", !name.isEmpty else { throw PatternError("a group name is invalid", at: start) }
        index += 1
        return String(name)
    }

    private mutating func disjunction() throws(PatternError) {
        while let scalar = next {
            switch scalar {
            case "|":
                output += "|"
                index += 1
            case ")":
                guard nesting > 0 else { throw PatternError("\")\" has no \"(\"", at: index) }
                return
            default: try term()
            }
        }
    }

    /// Reads an assertion, or an atom with its quantifier.
    private mutating func term() throws(PatternError) {
        let start = index
        guard let scalar = next else { return }
        var isRepeatable = true
        index += 1
        switch scalar {
        case "^":
            output += "^"
            isRepeatable = false
        case "$":
            output += #"\z"#
            isRepeatable = false
        case ".": output += "[^\(Self.lineTerminators)]"
        case "(": isRepeatable = try group()
        case "[": try characterClass()
        case "\\": isRepeatable = try escape()
        case "*", "+", "?": throw PatternError("\"\(scalar)\" has nothing to repeat", at: start)
        case "{":
            index = start
            if try quantifier() != nil { throw PatternError("\"{\" has nothing to repeat", at: start) }
            throw brace(at: start)
        case "}": throw brace(at: start)
        default: literal(scalar)
        }
        let quantifierStart = index
        guard let quantifier = try quantifier() else { return }
        guard isRepeatable else { throw PatternError("an assertion cannot be repeated", at: quantifierStart) }
        output += quantifier
        if skip("?") { output += "?" }
    }

    /// The error for a brace that does not belong to a quantifier. The `u` flag forbids it, because it is mostly an
    /// error: `{,8}` does not mean `{0,8}`.
    private func brace(at position: Int) -> PatternError {
        PatternError(
            "\"\(text[position])\" does not belong to a quantifier such as \"{0,8}\"; for the character, write \"\\\(text[position])\"",
            at: position)
    }

    /// Reads a quantifier, but not the `?` after a lazy one; nil if the next characters are not a quantifier.
    private mutating func quantifier() throws(PatternError) -> String? {
        let start = index
        switch next {
        case "*", "+", "?":
            index += 1
            return String(text[start])
        case "{":
            index += 1
            guard let minimum = try number() else { break }
            if skip("}") { return "{\(minimum)}" }
            guard skip(",") else { break }
            let maximum = try number()
            guard skip("}") else { break }
            if let maximum, maximum < minimum {
                throw PatternError("\"{\(minimum),\(maximum)}\" has its limits in the wrong order", at: start)
            }
            return "{\(minimum),\(maximum.map(String.init) ?? "")}"
        default: return nil
        }
        index = start
        return nil
    }

    private mutating func number() throws(PatternError) -> Int? {
        let start = index
        var result = 0
        while let digit = next?.value, (0x30...0x39).contains(digit) {
            result = min(result * 10 + Int(digit - 0x30), 1_000_000)
            index += 1
        }
        guard index > start else { return nil }
        guard result <= Self.maxRepetitions else {
            throw PatternError("more than \(Self.maxRepetitions) repetitions are not supported", at: start)
        }
        return result
    }

    /// Reads a group after its `(`. Returns whether it may be repeated.
    private mutating func group() throws(PatternError) -> Bool {
        let start = index - 1
        var isRepeatable = true
        if skip("?:") {
            output += "(?:"
        } else if skip("?=") || skip("?!") {
            output += "(?" + String(text[index - 1])
            isRepeatable = false
        } else if skip("?<=") || skip("?<!") {
            output += "(?<" + String(text[index - 1])
            isRepeatable = false
        } else if skip("?<") {
            _ = try groupName()
            output += "("
        } else if next == "?" {
            throw PatternError("\"(?\" must be followed by one of : = ! <= <! or <NAME>", at: start)
        } else {
            output += "("
        }
        nesting += 1
        guard nesting <= Self.maxNesting else {
            throw PatternError("groups are nested deeper than \(Self.maxNesting) levels", at: start)
        }
        try disjunction()
        nesting -= 1
        guard skip(")") else { throw PatternError("\"(\" has no \")\"", at: start) }
        output += ")"
        return isRepeatable
    }

    /// Reads an escape outside of a class, after its backslash. Returns whether it may be repeated.
    private mutating func escape() throws(PatternError) -> Bool {
        let start = index - 1
        guard let scalar = next else { throw PatternError("the pattern ends with a backslash", at: start) }
        switch scalar {
        case "b", "B":
            index += 1
            output += "\\" + String(scalar)
            return false
        case "1"..."9":
            guard let group = try number(), group <= groupCount else {
                throw PatternError("a reference to a group that does not exist", at: start)
            }
            output += "\\g{\(group)}"
        case "k":
            index += 1
            guard skip("<"), let group = groups[ExactText(try groupName())] else {
                throw PatternError("a reference to a group that does not exist", at: start)
            }
            output += "\\g{\(group)}"
        default:
            switch try characterEscape() {
            case .scalar(let scalar): literal(scalar)
            case .set(let set): output += "[\(set)]"
            case .nothing: output += "(?!)"
            }
        }
        return true
    }
}
