import LarderJSON
import LarderSchema
import Testing

@Suite("Annotations")
struct AnnotationTests {
    private let schema = ##"""
        {"title": "Configuration", "properties": {
            "search": {"description": "The search service", "allOf": [{"$ref": "#/$defs/service"}],
                       "properties": {"limit": {"type": "integer", "default": 25, "title": "Limit"}}},
            "color": {"enum": ["red", "green"], "examples": ["red"]},
            "enabled": {"type": "boolean", "deprecated": true},
            "old": false,
            "servers": {"prefixItems": [{"title": "First"}], "items": {"$ref": "#/$defs/server"}}},
         "patternProperties": {"^x-": {"title": "Extension"}},
         "additionalProperties": {"title": "Other"},
         "$defs": {"service": {"title": "Service", "description": "Any service", "type": "object",
                               "properties": {"port": {"type": "integer"}, "limit": {"title": "Hidden"}}},
                   "server": {"anyOf": [{"type": "string", "enum": ["local"]}, {"type": "null", "const": null},
                                        {"type": "object", "properties": {"host": {"title": "Host"}}}]}}}
        """##

    private func annotations(_ path: String) throws -> SchemaAnnotations? {
        try compile(schema).annotations(at: JSONPath(parsing: path))
    }

    @Test("titles, descriptions and defaults come from the outermost schema that has them")
    func outermost() throws {
        #expect(try annotations("")?.title == "Configuration")
        let search = try #require(try annotations("search"))
        #expect(search.title == "Service")
        #expect(search.description == "The search service")
        #expect(search.types == ["object"])
        #expect(search.memberNames == ["limit", "port"])
        let limit = try #require(try annotations("search.limit"))
        #expect(limit.title == "Limit")
        #expect(limit.defaultValue == 25)
        #expect(limit.types == ["integer"])
    }

    @Test("the permitted values are those of enum and const in all branches; for a boolean, they are true and false")
    func values() throws {
        #expect(try annotations("color")?.values == ["red", "green"])
        #expect(try annotations("color")?.examples == ["red"])
        #expect(try annotations("enabled")?.values == [true, false])
        #expect(try annotations("enabled")?.isDeprecated == true)
        let server = try #require(try annotations("servers.1"))
        #expect(server.values == ["local", .null])
        #expect(server.types == ["null", "string", "object"])
        #expect(server.memberNames == ["host"])
        #expect(try annotations("servers.1.host")?.title == "Host")
        #expect(try annotations("servers.0")?.title == "First")
    }

    @Test("a member not in `properties` has the annotations of its pattern or of `additionalProperties`")
    func otherMembers() throws {
        #expect(try annotations("x-a")?.title == "Extension")
        #expect(try annotations("anything")?.title == "Other")
        #expect(try annotations("")?.memberNames == ["search", "color", "enabled", "servers"])
    }

    @Test("a path has no annotations if no schema applies to it or if no value is permitted there")
    func none() throws {
        #expect(try annotations("old") == nil)
        #expect(try annotations("color.x") == nil)
        #expect(try annotations("search.unknown") == nil)
    }

    @Test("annotations are found at any depth of a recursive schema")
    func recursive() throws {
        let schema = try compile(##"{"title": "Node", "properties": {"next": {"$ref": "#"}}}"##)
        let path = JSONPath(Array(repeating: "next", count: 1_000))
        #expect(schema.annotations(at: path)?.title == "Node")
    }
}
