import LarderJSON
import Testing

@Suite("Equality of values")
struct EqualityTests {
    @Test(
        "equal values compare equal",
        arguments: [
            ("null", " null "), ("[1,2]", "[ 1 , 2 ]"), (#"{"a":1,"b":[2]}"#, #"{"b":[2],"a":1}"#),
            (#""\u0041\/é""#, #""A/\u00e9""#), (#"{"a":1,"a":2}"#, #"{"a":2}"#), (#"{"\u0061":1}"#, #"{"a":1}"#),
            ("[]", "[ ]"), ("{}", "{ }"),
        ])
    func same(left: String, right: String) throws {
        let (left, right) = (try JSONValue(parsing: left), try JSONValue(parsing: right))
        #expect(left == right && right == left)
        #expect(JSONText(left).isEqual(to: right) && JSONText(right).isEqual(to: left))
    }

    @Test(
        "different values compare unequal",
        arguments: [
            ("1", "1.0"), ("1", "10"), ("0", "-0"), ("1e1", "1E1"), ("true", "false"), ("null", "false"), ("[]", "{}"),
            ("[1,2]", "[2,1]"), ("[1]", "[1,1]"), ("[]", "[null]"), (#"{"a":1}"#, #"{"a":2}"#),
            (#"{"a":1}"#, #"{"b":1}"#), (#"{"a":1}"#, #"{"a":1,"b":1}"#), (#"{"a":null}"#, "{}"), (#""a""#, #""b""#),
            (#""1""#, "1"), ("\"\u{E9}\"", "\"e\u{301}\""), (#"{"a":[1,{"b":2}]}"#, #"{"a":[1,{"b":3}]}"#),
            ("[1,2]", "[12]"), (#"{"a":{},"b":1}"#, #"{"a":{"b":1}}"#), (#""a\"""#, #""a""#), (#"["\""]"#, #"["\\a"]"#),
            ("[[],1]", "[[1]]"), (#"["a"]"#, #"["a","b"]"#), (#"{"a":[]}"#, #"{"a":[[]]}"#),
        ])
    func different(left: String, right: String) throws {
        let (left, right) = (try JSONValue(parsing: left), try JSONValue(parsing: right))
        #expect(left != right && right != left)
        #expect(!JSONText(left).isEqual(to: right) && !JSONText(right).isEqual(to: left))
    }

    @Test("long strings and numbers are compared to their end")
    func longScalars() throws {
        let long = String(repeating: "x", count: 1000)
        #expect(try JSONValue(parsing: "[\"\(long)a\"]") == JSONValue(parsing: "[ \"\(long)a\"]"))
        #expect(try JSONValue(parsing: "[\"\(long)a\"]") != JSONValue(parsing: "[ \"\(long)b\"]"))
        let digits = String(repeating: "9", count: 1000)
        #expect(try JSONValue(parsing: "[\(digits)]") == JSONValue(parsing: "[ \(digits)]"))
        #expect(try JSONValue(parsing: "[\(digits)1]") != JSONValue(parsing: "[ \(digits)2]"))
    }

    @Test("parts of different documents are compared by content")
    func parts() throws {
        let left = try JSONValue(parsing: #"{"a":{"x":[1,2]}}"#)
        let right = try JSONValue(parsing: #"[0,{"x": [1,2]}]"#)
        #expect(left["a"] == right[1])
        #expect(left["a"]?["x"] == right[1]?["x"])
        #expect(left["a"] != right[0])
    }

    @Test("deeply nested documents are compared, written and patched without recursion")
    func deep() throws {
        let depth = 50_000
        let text = String(repeating: "{\"a\":", count: depth) + "[ ]" + String(repeating: "}", count: depth)
        let left = try JSONValue(parsing: text, maximumDepth: depth + 1)
        let right = try JSONValue(parsing: text + " ", maximumDepth: depth + 1)
        #expect(left == right)
        #expect(JSONText(left).isEqual(to: right))
        #expect(left.compactBytes.count == text.utf8.count - 1)
        #expect(MergePatch.apply(right, to: left) == left)
        #expect(MergePatch.difference(from: left, to: right)?.compactText == "{}")
        #expect(MergePatch.difference(from: .emptyObject, to: right) == left)
        #expect(MergePatch.merge([left, right, left]) == left)
    }
}
