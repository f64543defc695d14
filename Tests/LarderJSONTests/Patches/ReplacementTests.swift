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

@Suite("Replacement of members")
struct MemberReplacementTests {
    private static func replacing(_ document: String, _ paths: [[String]], from source: JSONValue) throws -> String? {
        try JSONValue(parsing: document).replacingMembers(at: paths, from: source)?.compactText
    }

    @Test("members are replaced, removed and appended in the order of their paths")
    func kinds() throws {
        let result = try Self.replacing(
            #"{"a":1,"b":{"c":[1,2],"d":true},"e":2}"#,
            [["f"], ["b", "x"], ["a"], ["b", "c"], ["b", "w"], ["none"]],
            from: ["a": ["long": "text"], "b": ["w": 1, "x": [2]], "f": 3])
        #expect(result == #"{"a":{"long":"text"},"b":{"d":true,"x":[2],"w":1},"e":2,"f":3}"#)
    }

    @Test(
        "commas stay between the remaining members",
        arguments: [
            ([["a"]], #"{"b":2,"c":3}"#), ([["b"]], #"{"a":1,"c":3}"#), ([["c"]], #"{"a":1,"b":2}"#),
            ([["b"], ["a"]], #"{"c":3}"#), ([["c"], ["b"]], #"{"a":1}"#), ([["a"], ["c"]], #"{"b":2}"#),
            ([["a"], ["b"], ["c"]], "{}"), ([["c"], ["b"], ["a"], ["new"]], #"{"new":0}"#),
            ([["c"], ["new"]], #"{"a":1,"b":2,"new":0}"#), ([["a"], ["new"]], #"{"b":2,"c":3,"new":0}"#),
        ])
    func commas(paths: [[String]], expected: String) throws {
        #expect(try Self.replacing(#"{"a":1,"b":2,"c":3}"#, paths, from: ["new": 0]) == expected)
    }

    @Test("the name tables of replaced members do not accumulate")
    func formerTables() throws {
        let record = JSONValue.object((0..<40).map { ("\($0)", .int($0)) })
        let source: JSONValue = ["record": record]
        var document: JSONValue = ["a": 1, "record": record]
        var copies = 0
        for _ in 0..<1000 {
            if let edited = document.replacingMembers(at: [["record"]], from: source) {
                document = edited
            } else {
                document = document.detached()
                copies += 1
            }
            #expect(document.documentMemory < 64 << 10)
        }
        #expect(copies > 1 && copies < 100)
        #expect(document == ["a": 1, "record": record] && document["record"]?["39"] == 39)
    }

    @Test("members are moved to the end of their objects")
    func moves() throws {
        let document = try JSONValue(parsing: #"{"a":{"b":1,"c":2},"d":3}"#)
        let source: JSONValue = ["a": ["b": 4, "e": 5, "f": 6], "d": 3]
        let paths = [["a", "e"], ["a", "b"], ["a", "f"], ["d"]]
        #expect(
            document.replacingMembers(at: paths, moving: [0, 1], from: source)?.compactText
                == #"{"a":{"c":2,"e":5,"b":4,"f":6},"d":3}"#)
        #expect(
            document.replacingMembers(at: [["a", "b"], ["a", "c"]], moving: [0], from: ["a": ["b": 7]])?.compactText
                == #"{"a":{"b":7},"d":3}"#)
        let large = JSONValue.object((0..<40).map { ("\($0)", .int($0)) })
        let moved = try #require(large.replacingMembers(at: [["7"], ["0"]], moving: [0, 1], from: large))
        #expect(moved == large && moved.members.suffix(2).map(\.name) == ["7", "0"])
        for index in 0..<40 { #expect(moved["\(index)"]?.int == index) }
    }

    @Test("members of many objects with name tables are replaced, removed and appended at once")
    func manyTables() throws {
        func object(_ range: Range<Int>) -> JSONValue { .object(range.map { ("\($0)", .int($0)) }) }
        let names = (0..<2000).map { "object \($0)" }
        let document = JSONValue.object(names.map { ($0, object(0..<40)) } + [("last", 1)])
        let source = JSONValue.object(names.map { ($0, ["1": "replaced", "new": true]) })
        let paths = names.flatMap { [[$0, "0"], [$0, "1"], [$0, "new"]] }
        let result = try #require(document.replacingMembers(at: paths, from: source))
        for name in names {
            let members = try #require(result[name])
            #expect(members.count == 40 && members["0"] == nil)
            #expect(members["1"] == "replaced" && members["39"] == 39 && members["new"] == true)
        }
        #expect(result["last"] == 1)
        #expect(try result == JSONValue(parsing: result.compactText))
    }

    @Test("names keep the spelling of the document, and new names that of the source")
    func names() throws {
        let source = try JSONValue(parsing: #"{"ab":3,"\u006eew":4,"e\u0301":5}"#)
        let result = try Self.replacing(#"{"\u0061b":1,"\u00e9":2}"#, [["ab"], ["new"], ["e\u{301}"]], from: source)
        #expect(result == #"{"\u0061b":3,"\u00e9":2,"\u006eew":4,"e\u0301":5}"#)
    }

    @Test("members are not replaced if their object is absent, or if a document has spaces or duplicate names")
    func refusals() throws {
        #expect(try Self.replacing(#"{"a":1}"#, [["a", "b"]], from: ["a": ["b": 1]]) == nil)
        #expect(try Self.replacing(#"{"a":1}"#, [["b", "c"]], from: ["b": ["c": 1]]) == nil)
        #expect(try Self.replacing(#"{"a":1}"#, [[]], from: ["b": 1]) == nil)
        #expect(try Self.replacing(#"{"a": 1}"#, [["b"]], from: ["b": 1]) == nil)
        #expect(try Self.replacing(#"{"a":1,"a":2}"#, [["b"]], from: ["b": 1]) == nil)
        #expect(try Self.replacing(#"{"a":1}"#, [["b"]], from: JSONValue(parsing: #"{"b": 1}"#)) == nil)
        #expect(try JSONValue(parsing: #"{"a":{}}"#)["a"]?.replacingMembers(at: [["b"]], from: ["b": 1]) == nil)
    }

    @Test("an object whose name table is full, or that begins to need one, is not edited")
    func tables() throws {
        func object(_ count: Int) -> JSONValue { .object((0..<count).map { ("\($0)", .int($0)) }) }
        #expect(object(31).replacingMembers(at: [["new"]], from: ["new": 1])?.count == 32)
        #expect(object(32).replacingMembers(at: [["new"]], from: ["new": 1]) == nil)
        var document = object(33)
        for index in 33..<42 {
            document = try #require(document.replacingMembers(at: [["\(index)"]], from: object(50)))
        }
        #expect(document == object(42))
        for index in 0..<42 { #expect(document["\(index)"]?.int == index) }
        #expect(document["42"] == nil)
        #expect(document.replacingMembers(at: [["42"], ["43"]], from: object(50)) == nil)
    }

    @Test(
        "replacing members has the same result as building the document, also in objects with name tables",
        arguments: (0..<100 as Range<UInt64>) + [SeededGenerator.randomSeed])
    func anyDocument(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        func value(_ depth: Int) -> JSONValue {
            let kinds: [JSONValue] = [1, -12345678, "", "a longer text with \"quotes\"", true, [1, ["x": .null]]]
            if depth == 0 || Bool.random(using: &generator) { return kinds.randomElement(using: &generator)! }
            return object(depth)
        }
        func object(_ depth: Int) -> JSONValue {
            .object(
                (0..<[0, 1, 3, 36, 42].randomElement(using: &generator)!).shuffled(using: &generator).map {
                    ("name \($0)", value(depth - 1))
                })
        }
        func objects(_ value: JSONValue, _ path: [String]) -> [[String]] {
            value.kind == .object ? [path] + value.members.flatMap { objects($0.value, path + [$0.name]) } : []
        }
        /// The document with one member replaced, removed or appended.
        func built(_ document: JSONValue, _ path: ArraySlice<String>, _ value: JSONValue?) -> JSONValue {
            let name = path.first ?? ""
            func next(_ old: JSONValue?) -> JSONValue? {
                path.count == 1 ? value : old.map { built($0, path.dropFirst(), value) }
            }
            var members = document.members.compactMap { member in
                member.name == name ? next(member.value).map { (name, $0) } : (member.name, member.value)
            }
            if document[name] == nil, let value = next(nil) { members.append((name, value)) }
            return .object(members)
        }
        var document = object(3)
        var edited = 0
        for _ in 0..<10 {
            let parents = objects(document, [])
            var paths: [[String]] = []
            for _ in 0..<Int.random(in: 1...8, using: &generator) {
                let parent = parents.prefix(generator.next() % 2 == 0 ? 2 : .max).randomElement(using: &generator) ?? []
                let path = parent + ["name \(Int.random(in: 0..<44, using: &generator))"]
                if !paths.contains(where: { $0.starts(with: path) || path.starts(with: $0) }) { paths.append(path) }
            }
            var (expected, source) = (document, JSONValue.emptyObject)
            for path in paths {
                let value = Int.random(in: 0..<3, using: &generator) == 0 ? nil : value(2)
                expected = built(expected, path[...], value)
                guard let value else { continue }
                source = MergePatch.apply(path.reversed().reduce(value) { .object([($1, $0)]) }, to: source)
            }
            if let result = document.replacingMembers(at: paths, from: source) {
                edited += 1
                #expect(result.compactText == expected.compactText)
                // These operations read the tape of the result instead of its text.
                #expect(result == expected && expected == result)
                for parent in objects(expected, []) {
                    let (member, other) = (result.value(at: JSONPath(parent)), expected.value(at: JSONPath(parent)))
                    for (name, value) in other?.members ?? JSONValue.emptyObject.members {
                        #expect(member?[name]?.compactText == value.compactText)
                    }
                    #expect(member?["absent"] == nil && member?.count == other?.count)
                }
                #expect(
                    MergePatch.apply(["name 0": "other"], to: result).compactText
                        == MergePatch.apply(["name 0": "other"], to: expected).compactText)
                document = result
            } else {
                document = expected
            }
        }
        #expect(edited > 0)
    }
}
