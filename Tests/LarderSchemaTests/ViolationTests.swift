import LarderJSON
import LarderSchema
import Testing

@Suite("Violations")
struct ViolationTests {
    @Test(
        "a violation says what was expected and what was found",
        arguments: [
            (#"{"type": "number"}"#, #""twenty""#, #" #/type expected a number, found "twenty""#),
            (#"{"type": ["integer", "null"]}"#, "1.5", " #/type expected null or an integer, found 1.5"),
            (#"{"type": "object"}"#, "[1, 2]", " #/type expected an object, found an array with 2 elements"),
            (#"{"enum": ["a", 1, null]}"#, #""b""#, #" #/enum expected "a", 1 or null, found "b""#),
            (
                #"{"enum": [1,2,3,4,5,6,7,8,9,10,11,12]}"#, "0",
                " #/enum expected one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 other values, found 0"
            ),
            (
                #"{"const": {"a": 1}}"#, "{}",
                " #/const expected an object with 1 member, found an object with 0 members"
            ),
            (#"{"minimum": 1.5}"#, "1", " #/minimum expected at least 1.5, found 1"),
            (#"{"exclusiveMinimum": 1}"#, "1.0", " #/exclusiveMinimum expected more than 1, found 1.0"),
            (#"{"maximum": 10}"#, "1e2", " #/maximum expected at most 10, found 1e2"),
            (#"{"exclusiveMaximum": 10}"#, "10", " #/exclusiveMaximum expected less than 10, found 10"),
            (#"{"multipleOf": 0.1}"#, "0.35", " #/multipleOf expected a multiple of 0.1, found 0.35"),
            (#"{"minLength": 3}"#, #""é""#, #" #/minLength expected at least 3 characters, found 1 in "é""#),
            (#"{"maxLength": 3}"#, #""four""#, #" #/maxLength expected at most 3 characters, found 4 in "four""#),
            (#"{"pattern": "^a"}"#, #""b""#, #" #/pattern expected a text that matches the pattern "^a", found "b""#),
            (#"{"minItems": 2}"#, "[0]", " #/minItems expected at least 2 elements, found an array with 1 element"),
            (#"{"maxItems": 1}"#, "[0,1]", " #/maxItems expected at most 1 elements, found an array with 2 elements"),
            (
                #"{"uniqueItems": true}"#, "[3, 1, 2, 1.0]",
                " #/uniqueItems expected different elements, but the elements 1 and 3 are equal"
            ),
            (
                #"{"contains": {"type": "string"}}"#, "[1]",
                " #/contains expected at least 1 element that satisfies \"contains\", found 0 in an array with 1 element"
            ),
            (
                #"{"contains": {"type": "string"}, "maxContains": 1}"#, #"["a", "b"]"#,
                " #/maxContains expected at most 1 elements that satisfy \"contains\", found 2 in an array with 2 elements"
            ),
            (#"{"required": ["a"]}"#, "{}", #" #/required the member "a" is missing"#),
            (
                #"{"dependentRequired": {"a": ["b"]}}"#, #"{"a": 1}"#,
                #" #/dependentRequired the member "a" requires the member "b", which is missing"#
            ),
            (
                #"{"minProperties": 1}"#, "{}",
                " #/minProperties expected at least 1 members, found an object with 0 members"
            ),
            (
                #"{"propertyNames": {"maxLength": 2}}"#, #"{"abc": 1}"#,
                #"/abc #/propertyNames/maxLength the name "abc" is not permitted: expected at most 2 characters, found 3 in "abc""#
            ),
            (
                #"{"properties": {"a": true}, "additionalProperties": false}"#, #"{"b": 1}"#,
                #"/b #/additionalProperties the member "b" is not permitted"#
            ),
            (#"{"properties": {"a": false}}"#, #"{"a": 1}"#, #"/a #/properties/a the member "a" is not permitted"#),
            (
                #"{"not": {"type": "null"}}"#, "null",
                " #/not null is not permitted, because it satisfies the schema in \"not\""
            ),
            ("false", "5", " # no value is permitted here, found 5"),
            (
                #"{"oneOf": [{"type": "number"}, {"minimum": 5}]}"#, "7",
                " #/oneOf expected a value that satisfies exactly one of 2 schemas, but 7 satisfies 2"
            ),
            (
                #"{"anyOf": [{"type": "string"}, {"type": ["object", "array"]}]}"#, "7",
                " #/anyOf expected a string, an array or an object, found 7"
            ),
        ])
    func message(schema: String, value: String, violation: String) throws {
        #expect(try violations(schema, value) == [violation])
    }

    @Test("a format violation names the format")
    func format() throws {
        let schema = try compile(#"{"format": "date"}"#, assertsFormats: true)
        let found = schema.validate("2026-02-30")
        #expect(found.map(\.message) == [#"expected a text in the format "date", found "2026-02-30""#])
        #expect(found.map(\.keyword) == ["format"])
    }

    @Test("violation messages shorten long values to 60 characters")
    func longValue() throws {
        let text = String(repeating: "ä", count: 100)
        let found = try violations(#"{"type": "null"}"#, "\"\(text)\"")
        #expect(found == [" #/type expected null, found \"\(text.prefix(59))…\""])
    }

    @Test("violations in deeper values come first, and those at the same depth are in the order of the document")
    func order() throws {
        let schema = #"""
            {"required": ["x"], "properties": {
                "a": {"type": "object", "required": ["y"], "properties": {"n": {"maximum": 1}}},
                "b": {"type": "string"}, "c": {"items": {"type": "integer"}}}}
            """#
        let value = #"{"c": [1, "two", 3, "four"], "b": 5, "a": {"n": 2}}"#
        #expect(
            try violations(schema, value) == [
                #"/c/1 #/properties/c/items/type expected an integer, found "two""#,
                #"/c/3 #/properties/c/items/type expected an integer, found "four""#,
                "/a/n #/properties/a/properties/n/maximum expected at most 1, found 2",
                "/b #/properties/b/type expected a string, found 5",
                #"/a #/properties/a/required the member "y" is missing"#,
                #" #/required the member "x" is missing"#,
            ])
        #expect(try violations(schema, value, maxErrors: 2).count == 2)
    }

    @Test("if no branch accepts a value, the violations of the branch that fits best come first")
    func branches() throws {
        let schema = #"""
            {"oneOf": [
                {"type": "string"},
                {"required": ["kind", "path"], "properties": {"kind": {"const": "file"}}},
                {"required": ["kind", "url"], "properties": {"kind": {"const": "http"}, "url": {"type": "string"}}}]}
            """#
        #expect(
            try violations(schema, #"{"kind": "http", "url": 5}"#) == [
                "/url #/oneOf/2/properties/url/type expected a string, found 5",
                " #/oneOf expected a value that satisfies exactly one of 3 schemas, found an object with 2 members",
            ])
    }

    @Test("the location of a violation in a definition is that of the definition, with the URI of a loaded document")
    func locations() throws {
        let schema = try compile(
            ##"{"properties": {"a": {"$ref": "other.json#/$defs/port"}, "b": {"$ref": "#/$defs/n~0m"}}, "$defs": {"n~m": {"type": "null"}}}"##,
            baseURI: "file:///schemas/main.json",
            documents: ["file:///schemas/other.json": #"{"$defs": {"port": {"maximum": 65535}}}"#])
        let found = schema.validate(["a": 70_000, "b": 1])
        #expect(
            found.map(\.schemaLocation) == ["file:///schemas/other.json#/$defs/port/maximum", "#/$defs/n~0m/type"])
    }

    @Test("the same violation is reported once if a schema applies to a value in several ways")
    func duplicates() throws {
        let schema = ##"{"allOf": [{"$ref": "#/$defs/s"}, {"$ref": "#/$defs/s"}], "$defs": {"s": {"type": "string"}}}"##
        #expect(try violations(schema, "1") == [" #/$defs/s/type expected a string, found 1"])
    }

    @Test("`unevaluatedProperties` reports the members that it rejects even if other keywords are violated")
    func unevaluated() throws {
        let schema = #"""
            {"allOf": [{"properties": {"a": {"type": "string"}}}], "properties": {"b": true},
             "unevaluatedProperties": false}
            """#
        #expect(
            try violations(schema, #"{"a": 1, "b": 2, "c": 3}"#) == [
                "/a #/allOf/0/properties/a/type expected a string, found 1",
                #"/c #/unevaluatedProperties the member "c" is not permitted"#,
            ])
    }
}
