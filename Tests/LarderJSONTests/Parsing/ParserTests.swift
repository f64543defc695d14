import LarderJSON
import TestSupport
import Testing

@Suite("Parser with valid documents")
struct ParserTests {
    @Test(
        "each kind of value is a valid document",
        arguments: [
            ("null", JSONValue.Kind.null), ("true", .bool), (" false ", .bool), ("0", .number), ("-0", .number),
            ("\"\"", .string), ("[]", .array), ("{}", .object), ("\r\n\t [ \n ] \r", .array), ("{ }", .object),
        ])
    func scalarsAndEmptyContainers(text: String, kind: JSONValue.Kind) throws {
        #expect(try JSONValue(parsing: text).kind == kind)
    }

    @Test("white space of each length is skipped, in any mixture, and ends before any other byte")
    func whitespace() throws {
        let characters: [UInt8] = [0x20, 0x20, 0x20, 0x0A, 0x09, 0x0D]
        var random = SeededGenerator(seed: 1)
        for length in 0..<40 {
            let space = (0..<length).map { _ in characters[Int.random(in: 0..<6, using: &random)] }
            #expect(try JSONValue(parsing: space + Array("[7]".utf8) + space)[0]?.int == 7)
            for byte in UInt8.min...UInt8.max where !characters.contains(byte) {
                let error = #expect(throws: JSONError.self) {
                    try JSONValue(parsing: Array("[]".utf8) + space + [byte])
                }
                #expect(error?.offset == 2 + length, "\(byte) after \(length)")
            }
        }
    }

    @Test("an accessor returns nil for a value of another kind")
    func accessorsOfOtherKinds() throws {
        let value = try JSONValue(parsing: #"[null,true,1,"x",[],{}]"#)
        #expect(value.elements.map(\.isNull) == [true, false, false, false, false, false])
        #expect(value.elements.map(\.bool) == [nil, true, nil, nil, nil, nil])
        #expect(value.elements.map(\.int) == [nil, nil, 1, nil, nil, nil])
        #expect(value.elements.map(\.double) == [nil, nil, 1, nil, nil, nil])
        #expect(value.elements.map(\.numberText) == [nil, nil, "1", nil, nil, nil])
        #expect(value.elements.map(\.string) == [nil, nil, nil, "x", nil, nil])
        #expect(value.elements.map(\.count) == [0, 0, 0, 0, 0, 0])
        #expect(value.elements.allSatisfy { $0["x"] == nil && $0[0] == nil && $0.member("x") == nil })
    }

    @Test(
        "a number keeps its text",
        arguments: [
            "0", "-0", "1e400", "-1E-400", "12345678901234567890", "0.1000", "1.0", "-0.0e+00", "9007199254740993",
            "1234567890123456789012345678901234567890.12345678901234567890e1234567890",
        ])
    func numberText(text: String) throws {
        let value = try JSONValue(parsing: " [\(text) ] ")
        #expect(value[0]?.numberText == text)
        #expect(value.compactText == "[\(text)]")
    }

    @Test("int is nil for a number out of range or with a fraction or exponent")
    func integers() throws {
        let cases: [(String, Int?)] = [
            ("0", 0), ("-0", 0), ("7", 7), ("-12", -12), ("9223372036854775807", .max), ("-9223372036854775808", .min),
            ("9223372036854775808", nil), ("-9223372036854775809", nil), ("99999999999999999999999", nil), ("1.0", nil),
            ("1e3", nil), ("0e0", nil),
        ]
        for (text, expected) in cases { #expect(try JSONValue(parsing: text).int == expected, "\(text)") }
    }

    @Test("double is the Double nearest to the number, or nil if the number is out of range")
    func doubles() throws {
        let cases: [(String, Double?)] = [
            ("0", 0), ("0.1", 0.1), ("1e3", 1000), ("-2.5E-1", -0.25), ("1e400", nil), ("-1e400", nil), ("1e-400", 0),
            ("9007199254740993", 9_007_199_254_740_992), ("1.7976931348623157e308", .greatestFiniteMagnitude),
        ]
        for (text, expected) in cases { #expect(try JSONValue(parsing: text).double == expected, "\(text)") }
        let negativeZero = try #require(try JSONValue(parsing: "-0").double)
        #expect(negativeZero.sign == .minus)
    }

    @Test("every escape of RFC 8259, section 7, is resolved")
    func escapes() throws {
        let value = try JSONValue(parsing: #""\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\uD83D\ude00\u0000""#)
        #expect(value.string == "\"\\/\u{8}\u{C}\n\r\tAé€😀\u{0}")
    }

    @Test("every \\u escape of the basic plane is resolved, except lone surrogates, which are rejected")
    func everyUnicodeEscape() {
        var wrong: [String] = []
        for unit in UInt32(0)...0xFFFF {
            let digits = String(unit, radix: 16)
            let text = "\"\\u" + String(repeating: "0", count: 4 - digits.count) + digits + "\""
            let value = try? JSONValue(parsing: text)
            let expected = Unicode.Scalar(unit).map { String($0) }
            if value?.string.map({ Array($0.utf8) }) != expected.map({ Array($0.utf8) }) { wrong.append(text) }
        }
        #expect(wrong == [])
    }

    @Test("strings of 0 to 70 characters, with an escape or a non-ASCII character at any position, keep all bytes")
    func stringLengths() throws {
        for length in 0..<70 {
            for special in ["", "é", "\\n", "😀", "\u{7F}"] {
                for place in Set([0, length / 2, length]) {
                    let before = String(repeating: "x", count: place)
                    let after = String(repeating: "y", count: length - place)
                    let value = try JSONValue(parsing: "[\"\(before)\(special)\(after)\",1]")
                    #expect(value[0]?.string == before + (special == "\\n" ? "\n" : special) + after)
                    #expect(value[1]?.int == 1)
                }
            }
        }
    }

    @Test("whitespace of every length is skipped")
    func whitespaceLengths() throws {
        for length in 0..<40 {
            let space = String(repeating: " ", count: length)
            let mixed = String((0..<length).map { Array(" \n\t\r")[$0 % 4] })
            for gap in [space, mixed, "\n" + space, space + "\n"] {
                let value = try JSONValue(
                    parsing: "\(gap){\(gap)\"a\"\(gap):\(gap)[\(gap)1\(gap),\(gap)2\(gap)]\(gap)}\(gap)")
                #expect(value.compactText == #"{"a":[1,2]}"#)
            }
        }
    }

    @Test("the text of a value is its original text")
    func textBytes() throws {
        let value = try JSONValue(parsing: #" {"a": [1, {"b" : "\u0041"} ], "c":"é"} "#)
        func text(_ value: JSONValue?) -> String? {
            value?.withTextBytes { String(decoding: $0, as: UTF8.self) }
        }
        #expect(text(value) == #"{"a": [1, {"b" : "\u0041"} ], "c":"é"}"#)
        #expect(text(value["a"]) == #"[1, {"b" : "\u0041"} ]"#)
        #expect(text(value["a"]?[1]?["b"]) == #""\u0041""#)
        #expect(text(value["c"]) == #""é""#)
    }

    @Test("a value remains valid after its input and its parser have been reused")
    func valuesKeepTheirDocument() throws {
        var parser = JSONParser()
        func parse(_ text: String) throws -> JSONValue {
            try Array(text.utf8).withUnsafeBytes { try parser.parse($0) }
        }
        let first = try parse(#"{"id":1}"#)
        let inner = try #require(try parse(#"{"a":{"b":[true]}}"#)["a"])
        for number in 0..<100 {
            #expect(try parse("[\(number)]")[0]?.int == number)
        }
        #expect(throws: JSONError.self) { try parse("[") }
        #expect(first.compactText == #"{"id":1}"#)
        #expect(inner.compactText == #"{"b":[true]}"#)
    }

    @Test("a parser can be reused after an error and after a large document")
    func parserReuse() throws {
        var parser = JSONParser(maximumDepth: 2)
        func parse(_ text: String) throws -> String {
            try Array(text.utf8).withUnsafeBytes { try parser.parse($0).compactText }
        }
        let large = "[" + (0..<100_000).map(String.init).joined(separator: ",") + "]"
        for _ in 0..<3 {
            #expect(try parse("{\"a\": 1}") == "{\"a\":1}")
            #expect(throws: JSONError.self) { try parse("[[[]]]") }
            #expect(throws: JSONError.self) { try parse("") }
            #expect(try parse(large) == large)
            #expect(try parse("[[ ]]") == "[[]]")
        }
    }
}
