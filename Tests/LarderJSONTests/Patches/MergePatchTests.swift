import LarderJSON
import Testing

@Suite("Merge patches")
struct MergePatchTests {
    @Test(
        "the test cases of RFC 7396, appendix A, give the specified results",
        arguments: [
            (#"{"a":"b"}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"b"}"#, #"{"b":"c"}"#, #"{"a":"b","b":"c"}"#),
            (#"{"a":"b"}"#, #"{"a":null}"#, #"{}"#),
            (#"{"a":"b","b":"c"}"#, #"{"a":null}"#, #"{"b":"c"}"#),
            (#"{"a":["b"]}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"c"}"#, #"{"a":["b"]}"#, #"{"a":["b"]}"#),
            (#"{"a":{"b":"c"}}"#, #"{"a":{"b":"d","c":null}}"#, #"{"a":{"b":"d"}}"#),
            (#"{"a":[{"b":"c"}]}"#, #"{"a":[1]}"#, #"{"a":[1]}"#),
            (#"["a","b"]"#, #"["c","d"]"#, #"["c","d"]"#),
            (#"{"a":"b"}"#, #"["c"]"#, #"["c"]"#),
            (#"{"a":"foo"}"#, #"null"#, #"null"#),
            (#"{"a":"foo"}"#, #""bar""#, #""bar""#),
            (#"{"e":null}"#, #"{"a":1}"#, #"{"e":null,"a":1}"#),
            (#"[1,2]"#, #"{"a":"b","c":null}"#, #"{"a":"b"}"#),
            (#"{}"#, #"{"a":{"bb":{"ccc":null}}}"#, #"{"a":{"bb":{}}}"#),
        ])
    func appendix(target: String, patch: String, result: String) throws {
        let target = try JSONValue(parsing: target)
        let patch = try JSONValue(parsing: patch)
        #expect(MergePatch.apply(patch, to: target).compactText == result)
    }

    @Test("the example of RFC 7396, section 3, gives the specified result")
    func sectionThree() throws {
        let target = try JSONValue(
            parsing: """
                {"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},
                 "tags":["example","sample"],"content":"This will be unchanged"}
                """)
        let patch = try JSONValue(
            parsing: """
                {"title":"Hello!","phoneNumber":"+01-123-456-7890","author":{"familyName":null},"tags":["example"]}
                """)
        #expect(
            MergePatch.apply(patch, to: target).compactText
                == #"{"title":"Hello!","author":{"givenName":"John"},"tags":["example"],"#
                + #""content":"This will be unchanged","phoneNumber":"+01-123-456-7890"}"#)
    }

    @Test("a patch applied to nil results in the patch without its null members")
    func noTarget() throws {
        let patch = try JSONValue(parsing: #"{ "a": {"b": null, "c": [null, {"d": null}]}, "e": null }"#)
        #expect(MergePatch.apply(patch, to: nil).compactText == #"{"a":{"c":[null,{"d":null}]}}"#)
    }

    @Test("members keep their order, and new ones follow in the order of the patch")
    func order() throws {
        let target: JSONValue = ["z": 1, "m": ["b": 1, "a": 2], "c": 3]
        let patch: JSONValue = ["y": 1, "c": 4, "m": ["0": 0, "a": 5], "z": .null, "x": 2]
        #expect(
            MergePatch.apply(patch, to: target).compactText == #"{"m":{"b":1,"a":5,"0":0},"c":4,"y":1,"x":2}"#)
    }

    @Test("layers are merged from lowest to highest")
    func layers() {
        let result = MergePatch.merge([
            ["a": 1, "b": ["x": 1], "gone": 1, "back": 1],
            ["b": ["y": .null, "z": 2], "gone": .null, "back": .null, "list": [1]],
            ["a": ["deep": true], "b": ["x": .null], "back": 2, "list": .null],
        ])
        #expect(result.compactText == #"{"a":{"deep":true},"b":{"z":2},"back":2}"#)
        #expect(MergePatch.merge([]).compactText == "{}")
        #expect(MergePatch.merge([["a": .null, "b": ["c": .null]]]).compactText == #"{"b":{}}"#)
        #expect(MergePatch.merge([["a": 1], 5]).compactText == "5")
        #expect(MergePatch.merge([5, ["a": 1]]).compactText == #"{"a":1}"#)
        #expect(MergePatch.merge([["a": 1], .null, ["b": 1]]).compactText == #"{"b":1}"#)
    }

    @Test(
        "the difference is the smallest patch from the old to the new value",
        arguments: [
            ("{}", "{}", "{}"), (#"{"a":1}"#, #"{"a":1}"#, "{}"), (#"{"a":1}"#, #"{"a":2}"#, #"{"a":2}"#),
            (#"{"a":1,"b":2}"#, #"{"b":2}"#, #"{"a":null}"#),
            (#"{"a":{"b":1,"c":2}}"#, #"{"a":{"b":1,"c":3}}"#, #"{"a":{"c":3}}"#),
            (#"{"a":{"b":1}}"#, #"{"a":{}}"#, #"{"a":{"b":null}}"#), (#"{"a":1}"#, #"{"a":{}}"#, #"{"a":{}}"#),
            (#"{"a":[1,2]}"#, #"{"a":[1]}"#, #"{"a":[1]}"#), (#"{"a":1}"#, #"{"a":1.0}"#, #"{"a":1.0}"#),
            ("1", "1", "1"), ("1", "2", "2"), ("{}", "null", "null"), ("[1]", #"{"a":1}"#, #"{"a":1}"#),
            (#"{"n":null}"#, #"{"n":null,"a":1}"#, #"{"a":1}"#), (#"{"n":null}"#, "{}", #"{"n":null}"#),
            (#"{"a":{"b":1}}"#, #"{"a":{"b":1},"c":{"d":{}}}"#, #"{"c":{"d":{}}}"#),
            (#"{"a":1}"#, #"{"a":[null,{"x":null}]}"#, #"{"a":[null,{"x":null}]}"#),
        ])
    func differences(old: String, new: String, patch: String) throws {
        let old = try JSONValue(parsing: old)
        let new = try JSONValue(parsing: new)
        let difference = try #require(MergePatch.difference(from: old, to: new))
        #expect(difference.compactText == patch)
        #expect(MergePatch.apply(difference, to: old) == new)
    }

    @Test(
        "the difference is nil if the new value has a new null member, which no patch can create",
        arguments: [
            ("{}", #"{"a":null}"#), (#"{"a":1}"#, #"{"a":null}"#), ("1", #"{"a":null}"#),
            ("{}", #"{"a":{"b":null}}"#), (#"{"a":1}"#, #"{"a":{"b":null}}"#), (#"{"a":{}}"#, #"{"a":{"b":null}}"#),
        ])
    func inexpressible(old: String, new: String) throws {
        #expect(
            try MergePatch.difference(from: JSONValue(parsing: old), to: JSONValue(parsing: new)) == nil)
    }
}
