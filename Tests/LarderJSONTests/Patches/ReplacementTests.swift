import LarderJSON
import TestSupport
import Testing

@Suite("Replacement of scalars")
struct ReplacementTests {
    private static func replacing(
        _ document: String, _ replacements: [(path: [String], value: JSONValue)]
    ) throws -> JSONValue? {
        try JSONValue(parsing: document).replacing(
            replacements.map { JSONValue.Replacement(at: $0.path, by: $0.value) })
    }

    @Test("scalars are replaced with longer, shorter and other kinds of scalars")
    func places() throws {
        let document = #"{"a":1,"b":{"c":"short","d":true},"e":[1,2],"f":-1.5}"#
        let result = try Self.replacing(
            document,
            [(["b", "c"], "much longer than before"), (["a"], 1_000_000), (["b", "d"], "x"), (["f"], false)])
        #expect(
            result?.compactText
                == #"{"a":1000000,"b":{"c":"much longer than before","d":"x"},"e":[1,2],"f":false}"#)
        #expect(result?["b"]?["d"] == "x")
        #expect(result?["b"]?.compactText == #"{"c":"much longer than before","d":"x"}"#)
        #expect(result?["e"]?[1] == 2)
        #expect(result?["f"]?.bool == false)
    }

    @Test("if several replacements have the same path, the last one counts")
    func samePlace() throws {
        let result = try Self.replacing(#"{"a":1,"b":2}"#, [(["b"], 3), (["a"], "x"), (["b"], 4), (["a"], "yy")])
        #expect(result?.compactText == #"{"a":"yy","b":4}"#)
    }

    @Test("names are compared by bytes after resolving escapes")
    func names() throws {
        let document = #"{"\u0061b":1,"\#u{E9}":2,"e\#u{301}":3}"#
        let result = try Self.replacing(document, [(["ab"], 5), (["e\u{301}"], 6)])
        #expect(result?.compactText == #"{"\u0061b":5,"\#u{E9}":2,"e\#u{301}":6}"#)
    }

    @Test(
        "replacing returns nil for a path to a container, an array element, null or a missing value",
        arguments: [[], ["a"], ["list"], ["list", "0"], ["n"], ["missing"], ["s", "x"], ["a", "b", "c"]])
    func refusals(path: [String]) throws {
        #expect(try Self.replacing(#"{"a":{"b":1},"list":[1],"n":null,"s":"t"}"#, [(path, 2)]) == nil)
    }

    @Test(
        "replacing returns nil if the new value is a container or null",
        arguments: [JSONValue.null, [1], ["x": 1], .emptyObject])
    func containers(value: JSONValue) throws {
        #expect(try Self.replacing(#"{"a":1}"#, [(["a"], value)]) == nil)
    }

    @Test("replacing returns nil for a part of a document, and for a document with spaces or duplicate names")
    func whole() throws {
        #expect(try JSONValue(parsing: #"{"a":{"b":1}}"#)["a"]?.replacing([.init(at: ["b"], by: 2)]) == nil)
        #expect(try Self.replacing(#"{"a": 1}"#, [(["a"], 2)]) == nil)
        #expect(try Self.replacing(#"{"a":1,"a":1}"#, [(["a"], 2)]) == nil)
    }

    @Test(
        "replacements have the same result as the equivalent merge patches, even in objects with name tables",
        arguments: 0..<200 as Range<UInt64>)
    func anyDocument(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let scalars: [JSONValue] = [
            0, -12345678, "", "text", "a longer text with \"quotes\" and \u{1F34E}", true, false, 1.5,
        ]
        // Some of the objects have 40 members, which is enough for a name table.
        func object(_ depth: Int) -> JSONValue {
            .object(
                (0..<[1, 3, 40].randomElement(using: &generator)!).map { index in
                    let isObject = depth > 0 && Int.random(in: 0..<4, using: &generator) == 0
                    return ("name \(index)", isObject ? object(depth - 1) : scalars.randomElement(using: &generator)!)
                })
        }
        func paths(_ value: JSONValue) -> [[String]] {
            value.members.flatMap { name, member in
                member.kind == .object ? paths(member).map { [name] + $0 } : [[name]]
            }
        }
        let document = object(3)
        let all = paths(document)
        let replacements = (0..<Int.random(in: 1...8, using: &generator)).map { _ in
            JSONValue.Replacement(
                at: all.randomElement(using: &generator)!, by: scalars.randomElement(using: &generator)!)
        }
        let result = try #require(document.replacing(replacements))
        var expected = document
        for replacement in replacements {
            let patch = replacement.path.reversed().reduce(replacement.value) { JSONValue.object([($1, $0)]) }
            expected = MergePatch.apply(patch, to: expected)
        }
        #expect(result.compactText == expected.compactText)
        for path in all {
            #expect(result.value(at: JSONPath(path))?.compactText == expected.value(at: JSONPath(path))?.compactText)
        }
        // These operations read the tape (the parsed nodes) of the result instead of its text.
        #expect(
            MergePatch.apply(["name 0": "other"], to: result) == MergePatch.apply(["name 0": "other"], to: expected))
        #expect(result.replacing(replacements)?.compactText == expected.compactText)
    }
}
