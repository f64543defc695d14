import LarderJSON5
import TestSupport
import Testing

@testable import LarderSettings

@Suite("JSON5 in the settings")
struct SettingsJSON5Tests {
    /// Formats a value as text for comparison.
    static func shown(_ value: SettingsValue) -> String {
        switch value.content {
        case .array(let elements): "[\(elements.map(shown).joined(separator: ","))]"
        case .object(let members): "{\(members.map { "\($0.name):\(shown($0.value))" }.joined(separator: ","))}"
        case .number(let number, _): "\(number)"
        case .string(let text): "'\(text)'"
        default: value.shown
        }
    }

    static func parse(_ text: String) throws(JSON5Error) -> String {
        shown(try JSON5Parser.parse(Array(text.unicodeScalars)))
    }

    @Test(
        "JSON, comments, unquoted names, single-quoted strings and trailing commas are accepted",
        arguments: [
            ("{}", "{}"), ("[]", "[]"), ("{a:1,}", "{a:1.0}"), ("[1,]", "[1.0]"), ("{'a b':null}", "{a b:null}"),
            ("{$a_1:1,é:2,ａ:3,a\u{301}:4}", "{$a_1:1.0,é:2.0,ａ:3.0,a\u{301}:4.0}"), ("{null:true}", "{null:true}"),
            ("[1,-1,0,-0,0.1,0e1,1E5,1.0e-2]", "[1.0,-1.0,0.0,-0.0,0.1,0.0,100000.0,0.01]"),
            ("[1e400]", "[inf]"), ("['it\"s',\"it's\",'tab\there']", "['it\"s','it's','tab\there']"),
            ("'\\'\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0042'", "''\"\\/\u{8}\u{c}\n\r\tB'"),
            ("'\\ud83d\\ude00'", "'😀'"), ("'\u{2028}'", "'\u{2028}'"),
            ("{\\u0061b:1,\\u00e9c\\u200d:2,x\\ud835\\udc00:3}", "{ab:1.0,éc\u{200d}:2.0,x\u{1d400}:3.0}"),
            ("/* a /* */ // b\n [ // c\r 1 /**/ ]//d", "[1.0]"),
            ("\u{feff}[\u{a0}1\u{b}\u{c}\u{3000}]\u{2029}", "[1.0]"),
        ])
    func accepted(text: String, value: String) throws {
        #expect(try Self.parse(text) == value)
    }

    @Test(
        "invalid text and unsupported features of JSON5 are refused with line, column and a fix",
        arguments: [
            ("", "1:1: found the end of the text where a value should be"),
            ("// only\n", "2:1: found the end of the text where a value should be"),
            ("{\n  a: 1\n  b: 2\n}", "3:3: found \"b\" where \",\" or \"}\" should be"),
            ("{a 1}", "1:4: found \"1\" where \":\" after the name \"a\" should be"),
            ("{a:}", "1:4: found \"}\" where a value should be"),
            ("{:1}", "1:2: found \":\" where a name or \"}\" should be"),
            ("{1a:1}", "1:2: found \"1\" where a name or \"}\" should be"),
            ("{a-b:1}", "1:3: found \"-\" where \":\" after the name \"a\" should be"),
            ("{a\\u0021:1}", "1:3: a name with this character needs quotation marks around it"),
            ("{\\u0031:1}", "1:2: a name with this character needs quotation marks around it"),
            ("{a\\u005c:1}", "1:3: a name with this character needs quotation marks around it"),
            ("{a\\ud835:1}", "1:3: \"\\ud835\" is half of a surrogate pair; add the other half"),
            ("{a\\u00:1}", "1:3: this escape needs 4 hexadecimal digits"),
            ("{a\\n:1}", "1:3: an escape in a name must be \"\\u\" and 4 hexadecimal digits"),
            ("[tru\\u0065]", "1:2: the value \"tru\\\\u0065\" needs quotation marks around it"),
            ("[,]", "1:2: found \",\" where a value should be"),
            ("[1 \"x\"]", "1:4: found a quotation mark where \",\" or \"]\" should be"),
            ("{a:[1}", "1:6: found \"}\" where \",\" or \"]\" should be"),
            ("\n{a:{b:1}", "2:9: the bracket opened in line 2 is never closed; add \"}\""),
            (
                "{a:1}}",
                "1:6: text follows the end of the document; remove it, or the bracket that closed the document too early"
            ),
            ("{a: yes}", "1:5: the value \"yes\" needs quotation marks around it"),
            ("{a:'x\n'}", "1:4: the string that begins here is not closed on its line; add a quotation mark"),
            ("{a:'", "1:4: the string that begins here is not closed on its line; add a quotation mark"),
            ("{a:'\\", "1:4: the string that begins here is not closed on its line; add a quotation mark"),
            ("[/* x]", "1:2: the comment that begins here is never closed; add \"*/\""),
            ("[1/2]", "1:3: found \"/\" where \",\" or \"]\" should be"),
            ("['\\x41']", "1:3: \"\\x\" is not a JSON escape; write \"\\\\\" for a backslash"),
            ("['\\\n']", "1:3: \"\\\\u{a}\" is not a JSON escape; write \"\\\\\" for a backslash"),
            ("[Infinity]", "1:2: the value \"Infinity\" needs quotation marks around it"),
            ("['\\u12']", "1:3: this escape needs 4 hexadecimal digits"),
            ("['\\ud83d']", "1:3: \"\\ud83d\" is half of a surrogate pair; add the other half"),
            ("['\\ude00\\ud83d']", "1:3: \"\\ude00\" is half of a surrogate pair; add the other half"),
            ("😀\u{0}", "1:1: found \"😀\" where a value should be"),
            ("[\u{0}]", "1:2: found \"\\u{0}\" where a value should be"),
        ])
    func refused(text: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try settings(text) }
        #expect(error?.code == .invalid)
        #expect(error?.description == message)
    }

    @Test(
        "the error for an invalid number quotes the whole number",
        arguments: [
            "+1", ".5", "5.", "1.e-2", "0x1F", "-Infinity", "1e", "1e+", "1e+x", ".", "+", "-", "--1", "010", "00",
            "0x", "0xg", "1.5.2", "1_000", "5s", "1e5.2", "+Inf", "-x", "0b1", "1.2.3.4", "+-1", "0x1.8",
        ])
    func almostNumbers(text: String) {
        let error = #expect(throws: SettingsError.self) { try settings("{limits: {connections: \(text)}}") }
        #expect(error?.code == .invalid)
        #expect(
            error?.description.hasPrefix("1:24: \"\(text)\" is not a number; write it like 30, ") == true,
            "\(error?.description ?? "")")
    }

    @Test("each kind of line break ends a line, and columns are counted in characters")
    func places() {
        func place(_ text: String) -> String? {
            let error = #expect(throws: SettingsError.self) { try settings(text) }
            return error.map { "\($0.line ?? 0):\($0.column ?? 0)" }
        }
        #expect(place("{\n\n?") == "3:1")
        #expect(place("{\r\n\r\n ?") == "3:2")
        #expect(place("{\r\r?") == "3:1")
        #expect(place("{\u{2028}?") == "2:1")
        #expect(place("{/*äöü😀*/?") == "1:10")
    }

    @Test("text that is not UTF-8 is refused at the first invalid byte")
    func notUTF8() {
        let error = #expect(throws: SettingsError.self) {
            try Settings(parsing: Array("{\n  // ä ".utf8) + [0xe4, 0x0a, 0x7d])
        }
        #expect(error?.code == .invalid)
        #expect(error?.description == "2:8: the text is not UTF-8 from here on; save the file as UTF-8")
    }

    @Test("the depth of nesting is limited, even in the values of unknown members")
    func nesting() {
        let text = "{a:" + String(repeating: "[", count: 100_000)
        let error = #expect(throws: SettingsError.self) { try settings(text) }
        #expect(error?.code == .invalid)
        #expect(error?.column == 67)
    }

    @Test("a damaged file causes at most one error, which is a single line with a position", arguments: 0..<20)
    func damage(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let original = Array(
            """
            { // comment
              socket: {path: '/a\\u0062', mode: "0600"}, limits: {connections: 16, sendTimeoutSeconds: 1.5e+1},
              namespaces: {'a.b': {remote: {http: {url: "https://[::1]:80/", headers: {a: "b"}}}}, c: {}, /* d */},
            }
            """.utf8)
        let pieces = Array("{}[]:,'\"\\/*+-.eExu019 \n\u{e4}\u{2028}".utf8)
        for _ in 0..<500 {
            var bytes = original
            for _ in 0...Int.random(in: 0..<4, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes.remove(at: index)
                case 1: bytes.insert(pieces.randomElement(using: &random) ?? 0, at: index)
                case 2: bytes[index] = pieces.randomElement(using: &random) ?? 0
                default: bytes.removeSubrange(index...)
                }
                if bytes.isEmpty { break }
            }
            do {
                _ = try Settings(parsing: bytes)
            } catch {
                #expect(!error.description.contains { $0.isNewline }, "\(error)")
                #expect(error.line != nil)
            }
        }
    }
}
