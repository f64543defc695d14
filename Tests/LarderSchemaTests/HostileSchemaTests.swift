import LarderJSON
import LarderSchema
import Testing

@Suite("Hostile schemas and values")
struct HostileSchemaTests {
    @Test("matching that takes too many steps is reported as a violation at the location of the pattern")
    func pattern() throws {
        let schema = #"{"properties": {"a": {"pattern": "^(x+)+$"}}}"#
        let text = String(repeating: "x", count: 60) + "!"
        let found = try violations(schema, #"{"a": "\#(text)"}"#)
        #expect(
            found == [
                "/a #/properties/a/pattern matching \"\(text.prefix(59))…\" takes too many steps, so validation stopped; simplify the pattern"
            ])
        #expect(try violations(#"{"not": {"pattern": "^(x+)+$"}}"#, "\"\(text)\"").count == 1)
        #expect(try violations(#"{"patternProperties": {"^(x+)+$": true}}"#, "{\"\(text)\": 1}").count == 1)
    }

    @Test("two patterns that differ only in Unicode normalization are two patterns")
    func normalization() throws {
        let schema =
            #"{"properties": {"a": {"pattern": "^\#u{E9}$"}, "b": {"pattern": "^e\#u{301}$"}, "c": {"pattern": "^\#u{E9}$"}}}"#
        for (name, isComposed) in [("a", true), ("b", false), ("c", true)] {
            #expect(try accepts(schema, #"{"\#(name)": "\#u{E9}"}"#) == isComposed, "\(name)")
            #expect(try accepts(schema, #"{"\#(name)": "e\#u{301}"}"#) == !isComposed, "\(name)")
        }
    }

    @Test("validation stops if each of many texts takes many steps to match")
    func manyTexts() throws {
        let text = "\"" + String(repeating: "a", count: 400) + "!" + "\""
        let value = "[" + Array(repeating: text, count: 2_000).joined(separator: ",") + "]"
        let found = try violations(#"{"items": {"pattern": "(?:a+){2}$"}}"#, value, maxErrors: 100)
        #expect(found.last?.contains("takes too many steps") == true)
    }

    @Test("validation stops with a violation if each level of the schema doubles the work")
    func doubling() throws {
        let levels = (0..<40).map {
            ##""\##($0)": {"allOf": [{"$ref": "#/$defs/\##($0 + 1)"}, {"$ref": "#/$defs/\##($0 + 1)"}]}"##
        }
        let schema =
            ##"{"$ref": "#/$defs/0", "$defs": {\##(levels.joined(separator: ",")), "40": {"type": "integer"}}}"##
        let found = try violations(schema, "1")
        #expect(found.count == 1)
        #expect(found.first?.hasSuffix("validation takes too many steps, so it stopped; simplify the schema") == true)
    }

    @Test("validation stops with a violation if a value leads to endless references; other values are accepted")
    func endless() throws {
        for schema in [
            ##"{"if": {"type": "number"}, "then": {"$ref": "#"}}"##,
            ##"{"$dynamicAnchor": "x", "if": {"type": "number"}, "then": {"$dynamicRef": "#x"}}"##,
        ] {
            #expect(try accepts(schema, #""text""#))
            let found = try violations(schema, "1")
            #expect(found.count == 1)
            #expect(found.first?.contains("nested too deeply") == true)
        }
    }

    @Test("a long chain of references is followed up to the depth limit")
    func chain() throws {
        func schema(_ count: Int) -> String {
            let links = (0..<count).map { ##""\##($0)": {"allOf": [{"$ref": "#/$defs/\##($0 + 1)"}]}"## }
            return
                ##"{"$ref": "#/$defs/0", "$defs": {\##(links.joined(separator: ",")), "\##(count)": {"type": "null"}}}"##
        }
        #expect(try accepts(schema(400), "null"))
        #expect(try !accepts(schema(400), "1"))
        #expect(try violations(schema(5_000), "null").first?.contains("nested too deeply") == true)
    }

    @Test("values nested up to the limit of the parser are validated with a recursive schema")
    func deepValue() throws {
        let schema = try compile(##"{"anyOf": [{"type": "null"}, {"items": {"$ref": "#"}, "type": "array"}]}"##)
        let depth = 127
        let value = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
        #expect(schema.isValid(try JSONValue(parsing: value)))
        let deeper = String(repeating: "[", count: 5_000) + String(repeating: "]", count: 5_000)
        let found = schema.validate(try JSONValue(parsing: deeper, maximumDepth: 10_000))
        #expect(!found.isEmpty)
    }

    @Test("a deep value is compared without exhausting the stack")
    func deepComparison() throws {
        let text = String(repeating: "[", count: 5_000) + String(repeating: "]", count: 5_000)
        let value = try JSONValue(parsing: "[\(text), \(text)]", maximumDepth: 10_000)
        _ = try compile(#"{"uniqueItems": true}"#).isValid(value)
        let schema = try JSONSchema(["const": value])
        _ = schema.isValid(value)
    }

    @Test("a deeply nested schema is compiled")
    func deepSchema() throws {
        let depth = 5_000
        let text = String(repeating: #"{"items":"#, count: depth) + "{}" + String(repeating: "}", count: depth)
        let schema = try JSONSchema(JSONValue(parsing: text, maximumDepth: 10_000))
        #expect(schema.isValid([[[1]]]))
    }

    @Test("at most the requested number of violations, and at least one, is returned for 100,000 invalid elements")
    func manyViolations() throws {
        let value = "[" + Array(repeating: "1", count: 100_000).joined(separator: ",") + "]"
        let schema = #"{"items": {"anyOf": [{"type": "string"}, {"minimum": 2}, {"enum": ["a"]}]}}"#
        #expect(try violations(schema, value, maxErrors: 5).count == 5)
        #expect(try violations(schema, value, maxErrors: 0).count == 1)
    }

    @Test("a large array of different objects is checked for duplicates in time proportional to its size")
    func largeUnique() throws {
        let elements = (0..<100_000).map { #"{"id": \#($0), "name": "n"}"# }.joined(separator: ",")
        #expect(try accepts(#"{"uniqueItems": true}"#, "[\(elements)]"))
    }

    @Test("a schema with many members and a long chain of references is compiled")
    func largeSchema() throws {
        let count = 10_000
        let properties = (0..<count).map { ##""m\##($0)": {"$ref": "#/$defs/m\##($0)"}"## }.joined(separator: ",")
        let required = (0..<count).map { #""m\#($0)""# }.joined(separator: ",")
        // A chain of references, each to the next definition.
        let definitions = (0..<count).map { ##""m\##($0)": {"$ref": "#/$defs/m\##($0 + 1)"}"## }.joined(separator: ",")
        let schema = try compile(
            ##"{"properties": {\##(properties)}, "required": [\##(required)], "$defs": {\##(definitions), "m\##(count)": {}}}"##
        )
        #expect(schema.annotations(at: JSONPath([]))?.memberNames.count == count)
        let elements = (0..<count).map { ##"{"$ref": "#/$defs/a/allOf/\##($0)"}"## }.joined(separator: ",")
        let targets = Array(repeating: "{}", count: count).joined(separator: ",")
        _ = try compile(##"{"anyOf": [\##(elements)], "$defs": {"a": {"allOf": [\##(targets)]}}}"##)
    }

    @Test("a schema with too many targets of dynamic references is rejected")
    func dynamicTargets() throws {
        let definitions = (0..<1_500).map {
            ##""\##($0)": {"$id": "https://a.example/\##($0)", "$dynamicAnchor": "n\##($0)", "items": {"$dynamicRef": "#n\##($0)"}}"##
        }
        let error = try schemaError("{\"$defs\": {" + definitions.joined(separator: ",") + "}}")
        #expect(error?.detail.contains("dynamic anchors") == true)
    }

    @Test("`properties` and `required` find members with escaped or duplicate names, and among many others")
    func names() throws {
        let schema = #"{"properties": {"aé": {"type": "string"}, "n": {"type": "null"}}, "required": ["aé", "n"]}"#
        #expect(try accepts(schema, #"{"a\u00e9": "x", "\u006e": null}"#))
        #expect(try accepts(schema, #"{"n": 1, "aé": 1, "aé": "x", "n": null}"#))
        #expect(try !accepts(schema, #"{"n": null, "aé": "x", "aé": 1}"#))
        let many = (0..<100).map { #""m\#($0)": \#($0)"# }.joined(separator: ",")
        #expect(try accepts(schema, #"{\#(many), "aé": "x", "n": null}"#))
        #expect(try !accepts(schema, #"{\#(many), "aé": "x", "n": 0}"#))
        #expect(try !accepts(schema, "{\(many)}"))
    }
}
