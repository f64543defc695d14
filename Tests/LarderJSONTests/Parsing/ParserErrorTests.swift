import LarderJSON
import Testing

@Suite("Parser errors")
struct ParserErrorTests {
    @Test(
        "an invalid text is rejected with a code and an offset",
        arguments: [
            ("", .unexpectedEnd, 0), ("   ", .unexpectedEnd, 3), ("[", .unexpectedEnd, 1), ("[1", .unexpectedEnd, 2),
            ("[1,", .unexpectedEnd, 3), ("{", .unexpectedEnd, 1), ("{\"a\"", .unexpectedEnd, 4),
            ("{\"a\":", .unexpectedEnd, 5), ("{\"a\":1", .unexpectedEnd, 6), ("{\"a\":1,", .unexpectedEnd, 7),
            ("\"abc", .unexpectedEnd, 4), ("\"abc\\", .unexpectedEnd, 5), ("tru", .unexpectedEnd, 3),
            ("-", .unexpectedEnd, 1), ("1.", .unexpectedEnd, 2), ("1e", .unexpectedEnd, 2), ("1e+", .unexpectedEnd, 3),
            ("[1,]", .unexpectedByte, 3), ("[,1]", .unexpectedByte, 1), ("[1 2]", .unexpectedByte, 3),
            ("[1}", .unexpectedByte, 2), ("{\"a\":1]", .unexpectedByte, 6), ("{,}", .unexpectedByte, 1),
            ("{\"a\":1,}", .unexpectedByte, 7), ("{\"a\" 1}", .unexpectedByte, 5), ("{a:1}", .unexpectedByte, 1),
            ("{'a':1}", .unexpectedByte, 1), ("{1:1}", .unexpectedByte, 1), ("{\"a\":1 \"b\":2}", .unexpectedByte, 7),
            ("{\"a\":,}", .unexpectedByte, 5), ("]", .unexpectedByte, 0), (":", .unexpectedByte, 0),
            ("nul!", .unexpectedByte, 3), ("True", .unexpectedByte, 0), ("truE", .unexpectedByte, 3),
            ("nan", .unexpectedByte, 1), ("Infinity", .unexpectedByte, 0), ("+1", .unexpectedByte, 0),
            (".5", .unexpectedByte, 0), ("// x\n1", .unexpectedByte, 0), ("[1,/**/2]", .unexpectedByte, 3),
            ("\u{A0}1", .unexpectedByte, 0), ("\u{B}1", .unexpectedByte, 0), ("\u{C}1", .unexpectedByte, 0),
            ("[\u{0}]", .unexpectedByte, 1), ("\u{FEFF}{}", .unexpectedByte, 0), ("{}\u{FEFF}", .trailingBytes, 2),
            ("01", .invalidNumber, 0), ("-01", .invalidNumber, 1), ("[00]", .invalidNumber, 1),
            ("-a", .invalidNumber, 1), ("1.a", .invalidNumber, 2), ("[1.]", .invalidNumber, 3),
            ("1.e1", .invalidNumber, 2), ("1ex", .invalidNumber, 2), ("1e+-1", .invalidNumber, 3),
            ("--1", .invalidNumber, 1), ("1 1", .trailingBytes, 2), ("0x1", .trailingBytes, 1),
            ("1.1.1", .trailingBytes, 3), ("{} {}", .trailingBytes, 3), ("truefalse", .trailingBytes, 4),
            ("nullx", .trailingBytes, 4), ("\"a\"b", .trailingBytes, 3), ("[]\u{0}", .trailingBytes, 2),
            ("1\u{0}", .trailingBytes, 1), ("\"a\nb\"", .controlCharacter, 2), ("\"\u{0}\"", .controlCharacter, 1),
            ("\"\u{1F}\"", .controlCharacter, 1), ("{\"\t\":1}", .controlCharacter, 2),
            ("\"\\x\"", .invalidEscape, 1), ("\"ab\\'\"", .invalidEscape, 3), ("\"\\u\"", .invalidEscape, 1),
            ("\"\\u123\"", .invalidEscape, 1), ("\"\\u12G4\"", .invalidEscape, 1), ("\"\\U0041\"", .invalidEscape, 1),
            ("\"\\\n\"", .invalidEscape, 1), ("\"\\ud800\"", .loneSurrogate, 1), ("\"x\\udc00\"", .loneSurrogate, 2),
            ("\"\\ud800x\"", .loneSurrogate, 1), ("\"\\ud800\\n\"", .loneSurrogate, 1),
            ("\"\\ud800\\ud800\"", .loneSurrogate, 1), ("\"\\udc00\\ud800\"", .loneSurrogate, 1),
            ("\"\\ud83d\\u0041\"", .loneSurrogate, 1), ("{\"\\udfff\":1}", .loneSurrogate, 2),
        ] as [(String, JSONError.Code, Int)])
    func faults(text: String, code: JSONError.Code, offset: Int) {
        let error = #expect(throws: JSONError.self) { try JSONValue(parsing: text) }
        #expect(error?.code == code)
        #expect(error?.offset == offset)
        #expect(error?.reason.isEmpty == false)
        #expect(error?.reason.contains("\n") == false)
    }

    @Test("the error for a text with a byte order mark or in UTF-16 names that as the reason")
    func byteOrderMarks() {
        for (bytes, name) in [
            ([0xEF, 0xBB, 0xBF, 0x7B, 0x7D], "byte order mark"), ([0xFF, 0xFE, 0x7B, 0], "UTF-16"),
            ([0xFE, 0xFF, 0, 0x7B], "UTF-16"),
        ] as [([UInt8], String)] {
            let error = #expect(throws: JSONError.self) { try JSONValue(parsing: bytes) }
            #expect(error?.offset == 0)
            #expect(error?.reason.contains(name) == true)
        }
    }

    @Test("the description of an error has position and reason in one line")
    func description() {
        let error = #expect(throws: JSONError.self) { try JSONValue(parsing: #"{"a":1,}"#) }
        #expect(
            error?.description
                == "expected a member name in quotation marks, not '}' (unexpectedByte, at byte 7)")
    }

    @Test("nesting is accepted up to the limit and rejected at the bracket beyond it")
    func nesting() throws {
        func nested(_ depth: Int, _ open: String, _ close: String) -> String {
            String(repeating: open, count: depth) + "1" + String(repeating: close, count: depth)
        }
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            for limit in [0, 1, 2, 127, 128, 1000] {
                _ = try JSONValue(parsing: nested(limit, open, close), maximumDepth: limit)
                let error = #expect(throws: JSONError.self) {
                    try JSONValue(parsing: nested(limit + 1, open, close), maximumDepth: limit)
                }
                #expect(error?.code == .tooDeep)
                #expect(error?.reason == "arrays and objects are nested deeper than \(limit) levels")
                #expect(error?.offset == limit * open.utf8.count)
            }
        }
        _ = try JSONValue(parsing: nested(128, "[", "]"))
        #expect(throws: JSONError.self) { try JSONValue(parsing: nested(129, "[", "]")) }
        #expect(throws: JSONError.self) { try JSONValue(parsing: "[]", maximumDepth: -1) }
        #expect(try JSONValue(parsing: "1", maximumDepth: -1).int == 1)
    }

    @Test("a million open brackets are rejected at the limit")
    func hostileNesting() {
        for open in ["[", "{\"\":"] {
            let error = #expect(throws: JSONError.self) {
                try JSONValue(parsing: String(repeating: open, count: 1_000_000))
            }
            #expect(error?.code == .tooDeep)
            #expect(error?.offset == 128 * open.utf8.count)
        }
    }

    @Test("a second document in the text is an error")
    func trailingDocument() {
        let error = #expect(throws: JSONError.self) { try JSONValue(parsing: "{}\n{}") }
        #expect(error?.code == .trailingBytes)
    }
}
