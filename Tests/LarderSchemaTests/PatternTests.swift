import Testing

@testable import LarderSchema

@Suite("Patterns")
struct PatternTests {
    private func matches(_ pattern: String, _ text: String) throws -> PatternMatcher.Outcome {
        let pattern = try Pattern(pattern)
        var matcher = PatternMatcher()
        var text = text
        return text.withUTF8 { matcher.search($0, for: pattern) }
    }

    @Test(
        "patterns mean what they mean in ECMA-262",
        arguments: [
            ("^a$", ["a"], ["a\n", "ba", "A"]), ("a.c", ["abc", "a😀c"], ["a\nc", "a\u{2028}c"]),
            (#"^\d+$"#, ["09"], ["٣"]), (#"^\w+$"#, ["aZ_9"], ["é", "a-b"]), (#"^\W$"#, ["é", "-"], ["a"]),
            (#"^\s$"#, [" ", "\u{a0}", "\u{feff}", "\u{2028}"], ["a", "\u{200b}"]), (#"^[\s]$"#, ["\u{a0}"], ["x"]),
            (#"^\S$"#, ["a", "é"], ["\u{a0}"]), (#"^[\S ]$"#, ["a", " "], ["\t"]), (#"^[^\S ]$"#, ["\t"], [" ", "a"]),
            (#"^[\s\S]$"#, ["a", "\n"], [""]), (#"^[\w-.]+$"#, ["a-b.c"], ["a b"]), ("^[]$", [], ["", "a"]),
            ("^[^]$", ["a", "\n"], [""]), (#"^\p{Letter}+$"#, ["aßж"], ["1"]), (#"^\P{L}$"#, ["1"], ["a"]),
            (#"^\p{Script=Greek}+$"#, ["αβ"], ["a"]), (#"^[\p{Lu}\d]+$"#, ["A1É"], ["a"]),
            (#"^[^\W\p{Nd}]+$"#, ["aZ_"], ["я", "1", "٣", "-"]), (#"^[\D\p{Nd}]$"#, ["я", "1", "٣"], [""]),
            (#"^[^\D\p{Lu}]$"#, ["1"], ["я", "A", "É"]),
            (#"^[^\S\p{Zs}]$"#, ["\t", "\u{2028}"], ["я", " ", "\u{3000}"]),
            (#"^\p{gc=Decimal_Number}$"#, ["٣"], ["a"]), (#"^\u00e9\x41\u{1F600}\uD83D\uDE00$"#, ["éA😀😀"], ["e"]),
            (#"^\cJ\0\t\/\-$"#, ["\n\0\t/-"], [""]), (#"^(?<y>\d)-\k<y>\1$"#, ["1-11"], ["1-21"]),
            ("^(?:a|b){2,3}?$", ["ab", "bbb"], ["a"]), (#"^a\{,2\}[{}]$"#, ["a{,2}}"], ["aa"]),
            ("foo(?!bar)", ["foobaz"], ["foobar"]), ("(?<=a)b", ["ab"], ["cb"]), (#"\bcat\b"#, ["a cat"], ["cats"]),
            (#"^[\b]$"#, ["\u{8}"], ["b"]), ("^[[:alpha:]]$", ["a]", ":]"], ["b"]), ("^#x y$", ["#x y"], ["x"]),
            (#"^🐲*$"#, ["🐲🐲", ""], ["🐉"]), (#"^(a)?\1b$"#, ["b", "aab"], ["ab"]),
        ])
    func meaning(pattern: String, matching: [String], others: [String]) throws {
        for text in matching { #expect(try matches(pattern, text) == .matches, "\(text)") }
        for text in others { #expect(try matches(pattern, text) == .differs, "\(text)") }
    }

    @Test(
        "syntax that ECMA-262 does not have is rejected with its position",
        arguments: [
            (#"\a"#, #""\a" is not an escape of ECMA-262, at character 1"#),
            (#"^x\Z"#, #""\Z" is not an escape of ECMA-262, at character 3"#),
            ("(?i)a", #""(?" must be followed by one of : = ! <= <! or <NAME>, at character 1"#),
            ("(?>a)", #""(?" must be followed by one of : = ! <= <! or <NAME>, at character 1"#),
            ("a(*ACCEPT)", #""*" has nothing to repeat, at character 3"#),
            ("a*+", #""+" has nothing to repeat, at character 3"#),
            ("a**", #""*" has nothing to repeat, at character 3"#), ("a)", #"")" has no "(", at character 2"#),
            ("[a", #""[" has no "]", at character 1"#), ("[b-a]", "a range is in the wrong order, at character 3"),
            ("a{3,2}", #""{3,2}" has its limits in the wrong order, at character 2"#),
            (#"\1"#, "a reference to a group that does not exist, at character 1"),
            (#"\k<a>"#, "a reference to a group that does not exist, at character 1"),
            ("(?<a>x)(?<a>y)", #"the group name "a" is used twice, at character 11"#),
            (#"\p{Nope}"#, "unknown property after \\P or \\p"),
            (#"\p{L"#, #""\p{L}" is not a Unicode property, at character 1"#),
            ("a{70000}", "more than 65535 repetitions are not supported, at character 3"),
            (
                "^[a-z]{,8}$",
                #""{" does not belong to a quantifier such as "{0,8}"; for the character, write "\{", at character 7"#
            ),
            (
                "x{1,2",
                #""{" does not belong to a quantifier such as "{0,8}"; for the character, write "\{", at character 2"#
            ),
            (
                "a}",
                #""}" does not belong to a quantifier such as "{0,8}"; for the character, write "\}", at character 2"#
            ),
            ("(?=a)*", "an assertion cannot be repeated, at character 6"),
            (#"a\"#, "the pattern ends with a backslash, at character 2"),
            (#"\u{110000}"#, #""\u{…}" must contain a code point in hexadecimal digits, at character 1"#),
            (#"\07"#, "octal escapes are not part of ECMA-262, at character 1"),
        ])
    func invalid(pattern: String, reason: String) {
        #expect(throws: PatternError(reason)) { try Pattern(pattern) }
    }

    @Test(
        "syntax that PCRE2 has and ECMA-262 does not have is rejected",
        arguments: [#"\Qa\E"#, #"\G"#, "(?R)", "(?1)", #"\R"#, #"\h"#, #"\g{1}"#, "(?|a)"])
    func noOtherSyntax(pattern: String) {
        #expect(throws: PatternError.self) { try Pattern(pattern) }
    }

    @Test("matching stops at the step limit if a pattern backtracks exponentially")
    func exponential() throws {
        #expect(try matches("^(a+)+$", String(repeating: "a", count: 40) + "!") == .limitReached)
        #expect(try matches("^(a|aa)+$", String(repeating: "a", count: 100) + "!") == .limitReached)
        #expect(try matches("^(a+)+$", String(repeating: "a", count: 100_000)) == .matches)
        #expect(try matches("^([a-z]+,)*[a-z]+$", String(repeating: "abc,", count: 10_000) + "x") == .matches)
    }

    @Test("a pattern with deeply nested groups is rejected")
    func nesting() {
        let pattern = String(repeating: "(", count: 10_000) + String(repeating: ")", count: 10_000)
        #expect(throws: PatternError.self) { try Pattern(pattern) }
    }
}
