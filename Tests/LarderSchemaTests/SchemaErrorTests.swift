import LarderJSON
import LarderSchema
import Testing

@Suite("Schema errors")
struct SchemaErrorTests {
    @Test(
        "a broken schema is rejected with a location and a reason",
        arguments: [
            ("5", "#: a schema must be an object or a boolean, not a number"),
            (
                #"{"properties": {"a": []}}"#,
                "#/properties/a: a schema must be an object or a boolean, not an array"
            ),
            (
                #"{"type": "strin"}"#,
                "#/type: \"type\" must be one of \"null\", \"boolean\", \"integer\", \"number\", \"string\", \"array\", \"object\", or an array of them, not \"strin\""
            ),
            (
                #"{"minLength": -1}"#,
                "#/minLength: \"minLength\" must be an integer of at least 0, not -1"
            ),
            (#"{"maximum": "5"}"#, #"#/maximum: "maximum" must be a number, not "5""#),
            (
                #"{"required": "a"}"#,
                #"#/required: "required" must be an array of different strings, not "a""#
            ),
            (
                #"{"required": ["a", "a"]}"#,
                "#/required: \"required\" must be an array of different strings, not an array with 2 elements"
            ),
            (#"{"multipleOf": 0}"#, "#/multipleOf: \"multipleOf\" must be greater than 0, not 0"),
            (
                #"{"anyOf": []}"#,
                "#/anyOf: \"anyOf\" must be a nonempty array of schemas, not an array with 0 elements"
            ),
            (#"{"enum": 1}"#, "#/enum: \"enum\" must be an array, not 1"),
            (#"{"$id": "a#b"}"#, "#/$id: \"$id\" must not have a fragment; use \"$anchor\""),
            (
                #"{"$anchor": "1"}"#,
                "#/$anchor: \"$anchor\" must be a name of letters, digits, and - _ ."
            ),
            (
                #"{"pattern": "a("}"#,
                #"#/pattern: the pattern "a(" is invalid: "(" has no ")", at character 2"#
            ),
            (
                #"{"patternProperties": {"*": true}}"#,
                #"#/patternProperties/*: the pattern "*" is invalid: "*" has nothing to repeat, at character 1"#
            ),
            (##"{"$ref": "#/$defs/a"}"##, "#/$ref: \"#/$defs/a\" does not exist"),
            (##"{"$ref": "#a"}"##, "#/$ref: \"#a\" does not exist: there is no anchor \"a\""),
            (
                #"{"$ref": "https://example.com/a"}"#,
                "#/$ref: the schema \"https://example.com/a\" does not exist or cannot be read"
            ),
            (#"{"$ref": "a b"}"#, "#/$ref: \"a b\" is not a URI reference"),
            (
                ##"{"$ref": "#"}"##,
                "#: the schema applies itself to the same value, so validation would not end"
            ),
            (
                ##"{"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"not": {"$ref": "#/$defs/a"}}]}}}"##,
                "#/$defs/a: the schema applies itself to the same value, so validation would not end"
            ),
            (
                #"{"$schema": "http://json-schema.org/draft-04/schema#"}"#,
                "#/$schema: the dialect \"http://json-schema.org/draft-04/schema#\" is not supported; use \"https://json-schema.org/draft/2020-12/schema\" or \"http://json-schema.org/draft-07/schema#\""
            ),
            (
                #"{"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}}"#,
                "#/$defs/b/$id: the identifier \"x\" is also used by #/$defs/a"
            ),
            (
                #"{"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}"#,
                "#/$defs/b: the anchor \"x\" is also used by #/$defs/a"
            ),
            (
                #"{"multipleOf": 0.12345678901234567891}"#,
                "#/multipleOf: \"multipleOf\" has more than 19 significant digits"
            ),
        ])
    func rejected(schema: String, description: String) throws {
        #expect(try schemaError(schema)?.description == description)
    }

    @Test("the location of an error in a loaded document contains the URI of that document")
    func otherDocument() throws {
        let error = try schemaError(
            #"{"$ref": "other.json"}"#, documents: ["file:///schemas/other.json": #"{"minItems": null}"#])
        #expect(error?.location == "file:///schemas/other.json#/minItems")
    }

    @Test("a metaschema with an unknown vocabulary is rejected if the vocabulary is required, and accepted otherwise")
    func vocabularies() throws {
        func metaschema(_ required: Bool) -> [String: String] {
            [
                "https://example.com/meta": #"""
                {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/meta",
                 "$vocabulary": {"https://json-schema.org/draft/2020-12/vocab/core": true,
                                 "https://example.com/vocabulary": \#(required)}}
                """#
            ]
        }
        let schema = #"{"$schema": "https://example.com/meta", "minimum": 5}"#
        let error = try schemaError(schema, documents: metaschema(true))
        #expect(error?.detail.contains("the vocabulary \"https://example.com/vocabulary\", which is not sup") == true)
        // The metaschema does not list the vocabulary for validation, so `minimum` has no meaning.
        let compiled = try compile(schema, documents: metaschema(false))
        #expect(compiled.isValid(1))
    }

    @Test(
        "keywords and formats that are unknown have no effect",
        arguments: [#"{"minimun": 5, "x-order": [1]}"#, #"{"format": "color"}"#, #"{"$comment": "text"}"#])
    func unknown(schema: String) throws {
        #expect(try accepts(schema, "1"))
        #expect(try accepts(schema, #""text""#))
    }
}
