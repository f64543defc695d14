import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Secret patterns")
struct SecretPatternsTests {
    private func mask(_ patterns: [String], _ text: String, at path: String = "") throws -> (String, Bool) {
        let (value, isMasked) = try SecretPatterns(patterns).masked(
            JSONValue(parsing: text), at: JSONPath(parsing: path))
        return (value.compactText, isMasked)
    }

    @Test("in a pattern, a name matches itself, `*` any one segment, and `**` any number of segments")
    func forms() throws {
        let document = #"{"db":{"host":"h","password":"p"},"tls":{"key":"k","sub":{"pin":1}},"a":{"token":"t"}}"#
        #expect(
            try mask(["db.password"], document)
                == (
                    #"{"db":{"host":"h","password":"<masked>"},"tls":{"key":"k","sub":{"pin":1}},"a":{"token":"t"}}"#,
                    true
                ))
        #expect(
            try mask(["*.token", "tls.**"], document)
                == (#"{"db":{"host":"h","password":"p"},"tls":"<masked>","a":{"token":"<masked>"}}"#, true))
        #expect(try mask(["**.pin"], document).0.contains(#""sub":{"pin":"<masked>"}"#))
        #expect(try mask(["**.password"], #"{"password":1}"#) == (#"{"password":"<masked>"}"#, true))
        #expect(try mask(["*"], document) == (#"{"db":"<masked>","tls":"<masked>","a":"<masked>"}"#, true))
        #expect(try mask(["**"], document) == (#""<masked>""#, true))
    }

    @Test("a JSON Pointer can name members that contain dots")
    func pointers() throws {
        #expect(try mask(["/a.b/c~1d"], #"{"a.b":{"c/d":1,"c":2}}"#) == (#"{"a.b":{"c/d":"<masked>","c":2}}"#, true))
        #expect(try mask(["/*/k.v"], #"{"x":{"k.v":1}}"#) == (#"{"x":{"k.v":"<masked>"}}"#, true))
    }

    @Test("a pattern is matched against the full path of a value, and all values below a secret are secret")
    func below() throws {
        #expect(try mask(["db"], "1", at: "db.port") == (#""<masked>""#, true))
        #expect(try mask(["db.password"], #"{"password":1}"#, at: "db") == (#"{"password":"<masked>"}"#, true))
        #expect(try mask(["db.password"], #"{"password":1}"#, at: "cache") == (#"{"password":1}"#, false))
        #expect(try SecretPatterns(["tls.**"]).isSecret(JSONPath(["tls", "a", "b"])))
        #expect(try !SecretPatterns(["tls.*.key"]).isSecret(JSONPath(["tls", "a"])))
    }

    @Test("an array index counts as a segment of the path")
    func arrays() throws {
        #expect(
            try mask(["users.*.token"], #"{"users":[{"token":1,"n":2},{"token":3}]}"#)
                == (#"{"users":[{"token":"<masked>","n":2},{"token":"<masked>"}]}"#, true))
    }

    @Test("a secret that is null is not masked")
    func nulls() throws {
        #expect(try mask(["a.b"], #"{"a":{"b":null}}"#) == (#"{"a":{"b":null}}"#, false))
        #expect(try mask(["a"], #"{"a":[null]}"#) == (#"{"a":"<masked>"}"#, true))
    }

    @Test("names in patterns are compared by bytes")
    func names() throws {
        #expect(try mask(["\u{E9}"], "{\"e\u{301}\":1}") == ("{\"e\u{301}\":1}", false))
        #expect(try mask(["\u{E9}"], "{\"\\u00e9\":1}").1)
    }

    @Test("a pattern with many `**` does not take exponential time")
    func manyStars() throws {
        let pattern = Array(repeating: "**.a", count: 40).joined(separator: ".") + ".b"
        let depth = 120
        let text = String(repeating: #"{"a":"#, count: depth) + "1" + String(repeating: "}", count: depth)
        #expect(try mask([pattern], text) == (text, false))
    }

    @Test("without patterns a value is unchanged, and an invalid pattern throws")
    func none() throws {
        #expect(SecretPatterns.none.isEmpty)
        #expect(try mask([], #"{"a":1}"#) == (#"{"a":1}"#, false))
        #expect(throws: JSONError.self) { try SecretPatterns(["a..b"]) }
    }
}
