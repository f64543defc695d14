import LarderJSON
import Testing

@Suite("Paths")
struct PathTests {
    /// RFC 6901, section 5.
    private static let example = #"""
        {"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}
        """#

    @Test(
        "the examples of RFC 6901, section 5, give the specified results",
        arguments: [
            ("", PathTests.example), ("/foo", #"["bar","baz"]"#), ("/foo/0", #""bar""#), ("/", "0"), ("/a~1b", "1"),
            ("/c%d", "2"), ("/e^f", "3"), ("/g|h", "4"), ("/i\\j", "5"), ("/k\"l", "6"), ("/ ", "7"), ("/m~0n", "8"),
        ])
    func rfc6901(pointer: String, expected: String) throws {
        let document = try JSONValue(parsing: PathTests.example)
        let path = try JSONPath(parsing: pointer)
        #expect(document.value(at: path)?.compactText == expected)
        #expect(path.pointer == pointer)
    }

    @Test("~01 stands for ~1, not for a slash")
    func tildeOrder() throws {
        #expect(try JSONPath(parsing: "/~01").segments == ["~1"])
        #expect(JSONPath(["~1", "/", "~"]).pointer == "/~01/~1/~0")
    }

    @Test(
        "an array index consists of digits without a leading zero",
        arguments: [
            ("/0", 10), ("/1", 11), ("/00", nil), ("/01", nil), ("/-", nil), ("/-0", nil), ("/+1", nil), ("/2", nil),
            ("/1.0", nil), ("/", nil), ("/ 1", nil), ("/1e0", nil), ("/99999999999999999999", nil), ("/a", nil),
            ("/\u{661}", nil),
        ] as [(String, Int?)])
    func arrayIndexes(pointer: String, expected: Int?) throws {
        let document = try JSONValue(parsing: "[10,11]")
        #expect(document.value(at: try JSONPath(parsing: pointer))?.int == expected)
    }

    @Test("in an object, even a segment that looks like an array index is a name")
    func objectSegments() throws {
        let document = try JSONValue(parsing: #"{"0":1,"-":2,"01":3}"#)
        for (pointer, expected) in [("/0", 1), ("/-", 2), ("/01", 3)] {
            #expect(document.value(at: try JSONPath(parsing: pointer))?.int == expected)
        }
    }

    @Test("a path through a scalar or a missing member has no value")
    func throughScalars() throws {
        let document = try JSONValue(parsing: #"{"a":"x","n":null}"#)
        for text in ["a.0", "n.a", "b", "a.x.y", "/a/"] {
            #expect(document.value(at: try JSONPath(parsing: text)) == nil)
        }
    }

    @Test(
        "the dotted, pointer and array forms are read as the same path",
        arguments: [
            ("", []), ("a", ["a"]), ("a.b.0", ["a", "b", "0"]), ("/a/b", ["a", "b"]), ("/", [""]), ("//", ["", ""]),
            ("/a.b/c", ["a.b", "c"]), ("a/b.c", ["a/b", "c"]), ("a~b", ["a~b"]), ("größe.日本", ["größe", "日本"]),
            ("/größe~0/日本~1", ["größe~", "日本/"]),
        ] as [(String, [String])])
    func forms(text: String, segments: [String]) throws {
        let path = try JSONPath(parsing: text)
        #expect(path.segments == segments)
        #expect(try JSONPath(.string(text)) == path)
        #expect(try JSONPath(.array(segments.map { .string($0) })) == path)
        #expect(try JSONPath(parsing: path.pointer) == path)
        #expect(try JSONPath(parsing: path.description) == path)
    }

    @Test(
        "the description of a path is dotted if its names permit that",
        arguments: [
            ([], ""), (["a", "b"], "a.b"), (["a", "0"], "a.0"), (["a.b"], "/a.b"), ([""], "/"), (["a", ""], "/a/"),
            (["/a"], "/~1a"), (["a", "/b"], "a./b"), (["~"], "~"),
        ] as [([String], String)])
    func descriptions(segments: [String], text: String) throws {
        #expect(JSONPath(segments).description == text)
        #expect(try JSONPath(parsing: text).segments == segments)
    }

    @Test(
        "an invalid path is rejected with the offset of the error",
        arguments: [
            (".", 0), ("a.", 2), (".a", 0), ("a..b", 2), ("/~", 1), ("/a~", 2), ("/~2", 1), ("/a/b~x/c", 4),
            ("ä..b", 3),
        ])
    func refusals(text: String, offset: Int) {
        let error = #expect(throws: JSONError.self) { try JSONPath(parsing: text) }
        #expect(error?.code == .invalidPath)
        #expect(error?.offset == offset)
    }

    @Test(
        "a value that is neither a string nor an array of strings is rejected as a path",
        arguments: ["1", "null", "true", "{}", "[1]", #"["a",null]"#, #"[["a"]]"#])
    func otherKinds(text: String) throws {
        let value = try JSONValue(parsing: text)
        let error = #expect(throws: JSONError.self) { try JSONPath(value) }
        #expect(error?.code == .typeMismatch)
    }

    @Test("paths are equal only if their segments have the same bytes")
    func identity() {
        #expect(JSONPath(["\u{E9}"]) != JSONPath(["e\u{301}"]))
        #expect(JSONPath(["a", "b"]) != JSONPath(["ab"]))
        #expect(Set([JSONPath(["a", "b"]), JSONPath(["a", "b"]), JSONPath(["ab"])]).count == 2)
    }

    @Test("a path in dotted form equals the same path in pointer form", arguments: ["a.b", "/a/b"])
    func writtenForms(text: String) throws {
        let path = try JSONPath(parsing: text)
        #expect(path == JSONPath(["a", "b"]))
        #expect(
            Set([path, JSONPath(["a", "b"]), try JSONPath(parsing: "a.b"), try JSONPath(parsing: "/a/b")]).count == 1)
        #expect(path.pointer == "/a/b")
        #expect(path.description == "a.b")
        #expect(!path.isRoot)
        #expect(path != JSONPath([]))
    }

    @Test("paths with very long names are equal only if the names are equal to their end")
    func longNames() {
        let name = String(repeating: "x", count: 100_000)
        let other = name.prefix(50_000) + "y" + name.dropFirst(50_001)
        let paths: Set = [JSONPath([name]), JSONPath([String(other)]), JSONPath([name + "x"]), JSONPath([name, name])]
        #expect(paths.count == 4)
        #expect(paths.contains(JSONPath([String(repeating: "x", count: 100_000)])))
        #expect(!paths.contains(JSONPath([String(other) + "x"])))
    }

    @Test(
        "a path with more than the maximum number of segments is rejected",
        arguments: ["a.b.c", "/a/b/c", #"["a","b","c"]"#])
    func tooManySegments(text: String) throws {
        let value = text.hasPrefix("[") ? try JSONValue(parsing: text) : .string(text)
        #expect(try JSONPath(value, maximumSegments: 3).segments == ["a", "b", "c"])
        let error = #expect(throws: JSONError.self) { try JSONPath(value, maximumSegments: 2) }
        #expect(error?.code == .invalidPath)
        #expect(error?.reason == "it has more than 2 segments")
    }

    @Test("the value at a path of a hundred thousand segments is found")
    func longPath() throws {
        let depth = 100_000
        let text = String(repeating: "[", count: depth) + "7" + String(repeating: "]", count: depth)
        let document = try JSONValue(parsing: text, maximumDepth: depth)
        let path = try JSONPath(parsing: String(repeating: "/0", count: depth))
        #expect(document.value(at: path)?.int == 7)
    }
}
