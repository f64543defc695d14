import LarderJSON
import Testing

/// The official suite runs only for draft 2020-12, so these cases cover the keywords of draft-07, above all the
/// differences between the two drafts.
@Suite("Draft-07")
struct Draft7Tests {
    struct Case: Sendable, CustomStringConvertible {
        var description: String
        /// The members of the schema, without `$schema`.
        var schema: String
        var valid: [String]
        var invalid: [String]

        init(_ description: String, _ schema: String, valid: [String] = [], invalid: [String] = []) {
            (self.description, self.schema, self.valid, self.invalid) = (description, schema, valid, invalid)
        }

        var text: String { #"{"$schema": "http://json-schema.org/draft-07/schema#", \#(schema)}"# }
    }

    static let cases: [Case] = [
        Case(
            "an array of items applies by position", ##""items": [{"type": "string"}, {"type": "number"}]"##,
            valid: ["[]", #"["a"]"#, #"["a", 1, null]"#], invalid: ["[1]", #"["a", "b"]"#]),
        Case(
            "additionalItems applies after an array of items", ##""items": [{}], "additionalItems": {"type": "null"}"##,
            valid: ["[1]", "[1, null, null]"], invalid: ["[1, 2]"]),
        Case(
            "additionalItems false limits the length", ##""items": [{}, {}], "additionalItems": false"##,
            valid: ["[1, 2]"], invalid: ["[1, 2, 3]"]),
        Case(
            "additionalItems is ignored without an array of items", ##""items": {}, "additionalItems": false"##,
            valid: ["[1]"]),
        Case("additionalItems is ignored without items", ##""additionalItems": false"##, valid: ["[1, 2]"]),
        Case(
            "a schema of items applies to all elements", ##""items": {"type": "integer"}"##, valid: ["[1, 2]"],
            invalid: [#"[1, "a"]"#]),
        Case("items false permits only empty arrays", ##""items": false"##, valid: ["[]", "{}"], invalid: ["[1]"]),
        Case("prefixItems is unknown", ##""prefixItems": [false]"##, valid: ["[1]"]),
        Case(
            "contains needs one element", ##""contains": {"minimum": 5}"##, valid: ["[1, 5]", "1"],
            invalid: ["[]", "[1, 2]"]),
        Case(
            "minContains and maxContains are unknown",
            ##""contains": {"const": 1}, "minContains": 0, "maxContains": 1"##,
            valid: ["[1, 1]"], invalid: ["[]"]),
        Case(
            "siblings of $ref are ignored",
            ##""definitions": {"a": {"type": "array"}}, "properties": {"p": {"$ref": "#/definitions/a", "maxItems": 1}}"##,
            valid: [#"{"p": [1, 2]}"#], invalid: [#"{"p": 1}"#]),
        Case(
            "an identifier beside $ref does not change the base",
            ##""$id": "http://localhost/base", "properties": {"p": {"$id": "http://elsewhere/", "$ref": "#/definitions/a"}}, "definitions": {"a": {"type": "string"}}"##,
            valid: [#"{"p": "x"}"#], invalid: [#"{"p": 1}"#]),
        Case(
            "an identifier with a fragment is an anchor",
            ##""properties": {"p": {"$ref": "#name"}}, "definitions": {"a": {"$id": "#name", "type": "string"}}"##,
            valid: [#"{"p": "x"}"#], invalid: [#"{"p": 1}"#]),
        Case(
            "an anchor belongs to its base",
            ##""$id": "http://localhost/root", "properties": {"p": {"$ref": "nested.json#name"}}, "definitions": {"a": {"$id": "nested.json", "definitions": {"b": {"$id": "#name", "type": "null"}}}}"##,
            valid: [#"{"p": null}"#], invalid: [#"{"p": 1}"#]),
        Case("$anchor is unknown", ##""definitions": {"a": {"$anchor": "name"}}"##, valid: ["1"]),
        Case(
            "$defs is a place without meaning that references can use",
            ##""properties": {"p": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "null"}}"##,
            valid: [#"{"p": null}"#], invalid: [#"{"p": 1}"#]),
        Case(
            "a reference to the root is recursive",
            ##""properties": {"p": {"$ref": "#"}}, "additionalProperties": false"##,
            valid: [#"{"p": {"p": {}}}"#], invalid: [#"{"p": {"q": 1}}"#]),
        Case(
            "a reference to an identifier",
            ##""$id": "http://localhost/root", "properties": {"p": {"$ref": "item"}}, "definitions": {"a": {"$id": "item", "type": "integer"}}"##,
            valid: [#"{"p": 1}"#], invalid: [#"{"p": "x"}"#]),
        Case(
            "a reference to the metaschema",
            ##""properties": {"p": {"$ref": "http://json-schema.org/draft-07/schema#"}}"##,
            valid: [#"{"p": {"minLength": 1}}"#], invalid: [#"{"p": {"minLength": -1}}"#]),
        Case(
            "a property called $ref is no reference", ##""properties": {"$ref": {"type": "string"}}"##,
            valid: [#"{"$ref": "a"}"#], invalid: [#"{"$ref": 2}"#]),
        Case("$dynamicRef is unknown", ##""$dynamicRef": "#nowhere""##, valid: ["1"]),
        Case(
            "pointers resolve ~0, ~1 and percent encodings",
            ##""definitions": {"a~b": {"type": "string"}, "c/d": {"type": "number"}, "e%f": {"type": "null"}}, "properties": {"p": {"$ref": "#/definitions/a~0b"}, "q": {"$ref": "#/definitions/c~1d"}, "r": {"$ref": "#/definitions/e%25f"}}"##,
            valid: [#"{"p": "x", "q": 1, "r": null}"#], invalid: [#"{"p": 1}"#, #"{"q": "x"}"#, #"{"r": 1}"#]),
        Case(
            "dependencies on names", ##""dependencies": {"a": ["b", "c"]}"##,
            valid: ["{}", #"{"b": 1}"#, #"{"a": 1, "b": 2, "c": 3}"#, "5"], invalid: [#"{"a": 1, "b": 2}"#]),
        Case(
            "dependencies on a schema", ##""dependencies": {"a": {"properties": {"b": {"type": "null"}}}}"##,
            valid: [#"{"b": 1}"#, #"{"a": 1, "b": null}"#], invalid: [#"{"a": 1, "b": 1}"#]),
        Case(
            "dependencies on a boolean schema", ##""dependencies": {"a": true, "b": false}"##,
            valid: [#"{"a": 1}"#], invalid: [#"{"b": 1}"#]),
        Case("dependencies on an empty array", ##""dependencies": {"a": []}"##, valid: [#"{"a": 1}"#]),
        Case(
            "dependentRequired and dependentSchemas are unknown",
            ##""dependentRequired": {"a": ["b"]}, "dependentSchemas": {"a": false}"##,
            valid: [#"{"a": 1}"#]),
        Case("unevaluatedProperties is unknown", ##""unevaluatedProperties": false"##, valid: [#"{"a": 1}"#]),
        Case("unevaluatedItems is unknown", ##""unevaluatedItems": false"##, valid: ["[1]"]),
        Case(
            "properties applies by name", ##""properties": {"a": {"type": "integer"}, "b": false}"##,
            valid: ["{}", #"{"a": 1, "c": 2}"#, "[]"], invalid: [#"{"a": "x"}"#, #"{"b": 1}"#]),
        Case(
            "patternProperties applies to all matching names",
            ##""patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 5}}"##,
            valid: [#"{"a": 1, "b": 5, "ab": 7, "c": "x"}"#], invalid: [#"{"ab": 3}"#, #"{"ab": "x"}"#]),
        Case(
            "additionalProperties applies to other members",
            ##""properties": {"a": {}}, "patternProperties": {"^x": {}}, "additionalProperties": {"type": "null"}"##,
            valid: [#"{"a": 1, "x1": 2, "c": null}"#], invalid: [#"{"c": 1}"#]),
        Case(
            "additionalProperties does not see other applicators",
            ##""allOf": [{"properties": {"a": {}}}], "additionalProperties": false"##,
            valid: ["{}"], invalid: [#"{"a": 1}"#]),
        Case(
            "propertyNames applies to names", ##""propertyNames": {"pattern": "^[a-z]+$"}"##,
            valid: [#"{"abc": 1}"#, "1"], invalid: [#"{"A": 1}"#]),
        Case(
            "propertyNames false permits only empty objects", ##""propertyNames": false"##, valid: ["{}"],
            invalid: [#"{"a": 1}"#]),
        Case(
            "required", ##""required": ["a", "é"]"##, valid: [#"{"a": null, "\u00e9": 1}"#, "[]"],
            invalid: [#"{"a": 1}"#]),
        Case(
            "minProperties and maxProperties", ##""minProperties": 1, "maxProperties": 2.0"##,
            valid: [#"{"a": 1}"#, "1"], invalid: ["{}", #"{"a": 1, "b": 1, "c": 1}"#]),
        Case(
            "minItems and maxItems", ##""minItems": 1, "maxItems": 2"##, valid: ["[1]", "{}"],
            invalid: ["[]", "[1,2,3]"]),
        Case(
            "uniqueItems compares numbers by value and booleans not as numbers", ##""uniqueItems": true"##,
            valid: ["[1, true, 0, false]", #"[[1], [true]]"#, #"["a", "b"]"#],
            invalid: ["[1, 1.0]", #"[{"a": 1, "b": 2}, {"b": 2, "a": 1.00}]"#]),
        Case("uniqueItems false", ##""uniqueItems": false"##, valid: ["[1, 1]"]),
        Case(
            "minLength and maxLength count code points", ##""minLength": 2, "maxLength": 3"##,
            valid: [#""😀😀""#, #""abc""#, #""\ud83d\ude00b""#], invalid: [#""😀""#, #""abcd""#]),
        Case("pattern is not anchored", ##""pattern": "b+""##, valid: [#""abbc""#, "1"], invalid: [#""ac""#]),
        Case(
            "minimum and maximum include the limit", ##""minimum": 1, "maximum": 3"##, valid: ["1", "3.0", #""x""#],
            invalid: ["0.99", "3.01"]),
        Case(
            "exclusiveMinimum and exclusiveMaximum are numbers", ##""exclusiveMinimum": 1, "exclusiveMaximum": 3"##,
            valid: ["1.01", "2"], invalid: ["1", "3"]),
        Case("multipleOf", ##""multipleOf": 1.5"##, valid: ["4.5", "0", "-3"], invalid: ["4"]),
        Case(
            "an integer may be written with a fraction of zero", ##""type": "integer""##, valid: ["1.0", "1e2"],
            invalid: ["1.5"]),
        Case("several types", ##""type": ["integer", "null"]"##, valid: ["1", "null"], invalid: ["1.5", "{}"]),
        Case(
            "enum compares deeply", ##""enum": [[1, {"a": null}], "x", false]"##,
            valid: [#"[1.0, {"a": null}]"#, #""x""#, "false"], invalid: ["0", "[1]", "null"]),
        Case("const null", ##""const": null"##, valid: ["null"], invalid: ["0", "false"]),
        Case("const 0 is not false", ##""const": 0"##, valid: ["0.0", "-0"], invalid: ["false", "[]"]),
        Case("allOf", ##""allOf": [{"minimum": 1}, {"maximum": 3}]"##, valid: ["2"], invalid: ["0", "4"]),
        Case(
            "anyOf", ##""anyOf": [{"type": "string"}, {"minimum": 3}]"##, valid: [#""x""#, "3", "null"], invalid: ["1"]),
        Case("oneOf", ##""oneOf": [{"minimum": 1}, {"maximum": 3}]"##, valid: ["0", "4"], invalid: ["2", #""x""#]),
        Case("not", ##""not": {"required": ["a"]}"##, valid: ["{}"], invalid: [#"{"a": 1}"#]),
        Case(
            "if, then and else", ##""if": {"minimum": 10}, "then": {"multipleOf": 10}, "else": {"multipleOf": 2}"##,
            valid: ["20", "4"], invalid: ["15", "3"]),
        Case("then and else are ignored without if", ##""then": false, "else": false"##, valid: ["1"]),
        Case("if without then and else", ##""if": false"##, valid: ["1"]),
        Case("format is an annotation", ##""format": "date""##, valid: [#""yesterday""#]),
        Case(
            "content keywords are annotations",
            ##""contentEncoding": "base64", "contentMediaType": "application/json""##,
            valid: [#""{:}""#]),
        Case(
            "default does not change the result", ##""properties": {"a": {"type": "integer", "default": "x"}}"##,
            valid: ["{}"]),
        Case("readOnly and writeOnly are annotations", ##""readOnly": true, "writeOnly": true"##, valid: ["1"]),
        Case(
            "boolean schemas", ##""properties": {"a": true, "b": false}"##, valid: [#"{"a": 1}"#],
            invalid: [#"{"b": 1}"#]),
    ]

    @Test("values are accepted and rejected as draft-07 requires", arguments: cases)
    func validation(testCase: Case) throws {
        for value in testCase.valid { #expect(try accepts(testCase.text, value), "\(value)") }
        for value in testCase.invalid { #expect(try !accepts(testCase.text, value), "\(value)") }
    }

    @Test("Python's jsonschema accepts and rejects the same values", .needsPythonSchemas)
    func comparison() throws {
        var pairs: [PythonComparison.Pair] = []
        var expected: [Bool?] = []
        for testCase in Self.cases {
            for value in testCase.valid + testCase.invalid {
                pairs.append(.init(schema: try JSONValue(parsing: testCase.text), value: try JSONValue(parsing: value)))
                expected.append(testCase.valid.contains(value))
            }
        }
        let results = try PythonComparison.validate(pairs)
        // Python reports an error for one case, because it resolves the references against the wrong base URI.
        for (index, pair) in pairs.enumerated() where results[index] != nil {
            #expect(results[index] == expected[index], "\(pair.schema.compactText) \(pair.value.compactText)")
        }
    }

    @Test("a subschema can have another dialect than the document that contains it")
    func mixedDialects() throws {
        let schema = ##"""
            {"$id": "http://localhost/main", "properties": {"old": {"$ref": "old"}, "new": {"prefixItems": [{"type": "null"}]}},
             "$defs": {"old": {"$id": "old", "$schema": "http://json-schema.org/draft-07/schema#",
                               "items": [{"type": "string"}], "prefixItems": [false]}}}
            """##
        #expect(try accepts(schema, #"{"old": ["x"], "new": [null]}"#))
        #expect(try !accepts(schema, #"{"old": [1]}"#))
        #expect(try !accepts(schema, #"{"new": [1]}"#))
    }
}
