import LarderJSON
import LarderSchema
import Synchronization
import Testing

@Suite("References")
struct ReferenceTests {
    @Test("relative references are resolved against the URI of the document, and each document is loaded once")
    func loading() throws {
        let loaded = Mutex<[String]>([])
        let documents = [
            "file:///schemas/common.json":
                ##"{"$defs": {"port": {"type": "integer"}}, "properties": {"up": {"$ref": "main.json"}}}"##,
            "file:///schemas/sub/item.json": ##"{"properties": {"port": {"$ref": "../common.json#/$defs/port"}}}"##,
        ]
        let main = ##"""
            {"properties": {"a": {"$ref": "common.json#/$defs/port"}, "b": {"$ref": "sub/item.json"},
                            "c": {"$ref": "./sub/../common.json"}}}
            """##
        let schema = try JSONSchema(JSONValue(parsing: main), baseURI: "file:///schemas/main.json") { uri in
            loaded.withLock { $0.append(uri) }
            return documents[uri].flatMap { try? JSONValue(parsing: $0) }
        }
        #expect(loaded.withLock { $0.sorted() } == documents.keys.sorted())
        #expect(schema.isValid(["a": 1, "b": ["port": 2], "c": ["up": ["a": 3]]]))
        #expect(!schema.isValid(["b": ["port": "x"]]))
        #expect(!schema.isValid(["c": ["up": ["a": "x"]]]))
    }

    @Test("a reference leads only to files in the directory of the schema or below it, and to no NUL")
    func directory() {
        let directory = SchemaDirectory(ofFile: "/etc/larder/schema.json")
        #expect(directory.path == "/etc/larder")
        #expect(directory.path(of: "file:///etc/larder/other.json") == "/etc/larder/other.json")
        #expect(directory.path(of: "file:///etc/larder/sub/%C3%A9.json") == "/etc/larder/sub/\u{E9}.json")
        for uri in [
            "file:///etc/larder/other.json%00", "file:///etc/larder/%00/../other.json", "file:///etc/passwd",
            "file:///etc/larder/../passwd", "file:///etc/larder/%2E%2E/passwd", "https://example.com/other.json",
        ] {
            #expect(directory.path(of: uri) == nil, "\(uri)")
        }
    }

    @Test("a directory whose name has another Unicode normalization is another directory")
    func normalization() {
        let directory = SchemaDirectory(ofFile: "/etc/caf\u{E9}/schema.json")
        #expect(directory.path(of: "file:///etc/caf%C3%A9/other.json") != nil)
        #expect(directory.path(of: "file:///etc/cafe%CC%81/other.json") == nil)
    }

    @Test("an anchor in a loaded document is found by the URI of the document and by its `$id`")
    func anchors() throws {
        let documents = [
            "file:///schemas/other.json":
                ##"{"$id": "https://example.com/other", "$defs": {"n": {"$anchor": "name", "type": "null"}}}"##
        ]
        let schema = try compile(
            ##"{"properties": {"a": {"$ref": "other.json#name"}, "b": {"$ref": "https://example.com/other#name"}}}"##,
            baseURI: "file:///schemas/main.json", documents: documents)
        #expect(schema.isValid(["a": .null, "b": .null]))
        #expect(!schema.isValid(["a": 1]))
        #expect(!schema.isValid(["b": 1]))
    }

    @Test("a dynamic reference in a loaded document uses the outermost anchor, even if only a change is validated")
    func dynamic() throws {
        let tree = ##"""
            {"$id": "https://example.com/tree", "$dynamicAnchor": "node", "type": "object",
             "properties": {"children": {"items": {"$dynamicRef": "#node"}}}}
            """##
        let schema = try compile(
            ##"""
            {"$id": "https://example.com/strict", "$dynamicAnchor": "node", "$ref": "tree", "unevaluatedProperties": false}
            """##, documents: ["https://example.com/tree": tree])
        #expect(schema.isValid(["children": [["children": []]]]))
        #expect(!schema.isValid(["children": [["child": []]]]))
        let value: JSONValue = ["children": [["children": []]]]
        #expect(
            !schema.validate(["children": [["child": []]]], previous: value, changedAt: JSONPath(["children"])).isEmpty)
    }

    @Test("the metaschema accepts valid schemas and rejects broken ones")
    func metaschema() throws {
        let schema = try compile(##"{"$ref": "https://json-schema.org/draft/2020-12/schema"}"##)
        #expect(schema.isValid(["properties": ["a": ["type": "string"]]]))
        #expect(!schema.isValid(["properties": ["a": ["type": "strin"]]]))
        #expect(!schema.isValid(["$defs": ["a": ["minLength": -1]]]))
    }

    @Test("a random schema that the metaschema rejects cannot be compiled", arguments: 0..<20)
    func agreement(seed: Int) throws {
        let metaschema = try compile(##"{"$ref": "https://json-schema.org/draft/2020-12/schema"}"##)
        var random = RandomSchema(seed: UInt64(seed))
        for _ in 0..<20 {
            let document = random.document()
            let changed = random.changed(document, at: random.path(in: document))
            let isAccepted = (try? JSONSchema(changed)) != nil
            if isAccepted { #expect(metaschema.isValid(changed), "\(changed)") }
        }
    }
}
