import LarderJSON
import TestSupport
import Testing

@Suite("Properties of random documents")
struct PropertyTests {
    @Test("a document and its compact form have the value that the reference parser reads", arguments: 0..<12)
    func parsing(seed: UInt64) throws {
        var generator = Generator(seed: seed)
        generator.whitespace = [0, 5, 40][Int(seed % 3)]
        for _ in 0..<100 {
            let bytes = generator.document()
            let expected = try #require(ReferenceParser.parse(bytes))
            let value = try JSONValue(parsing: bytes)
            #expect(Model(value) == expected)

            let compact = value.compactBytes
            #expect(ReferenceParser.parse(compact) == expected)
            let again = try JSONValue(parsing: compact)
            #expect(again == value)
            #expect(again.compactBytes == compact)
            #expect(value.detached() == value)
        }
    }

    @Test("every member is found by its name, and an index finds every element", arguments: 100..<110)
    func lookup(seed: UInt64) throws {
        func check(_ value: JSONValue) {
            #expect(value.count == Array(value.members).count + Array(value.elements).count)
            for (name, member) in value.members {
                #expect(value[name] == member)
                #expect(value.value(at: JSONPath([name])) == member)
                check(member)
            }
            for (index, element) in value.elements.enumerated() {
                #expect(value[index] == element)
                check(element)
            }
        }
        var generator = Generator(seed: seed)
        for _ in 0..<50 { check(try JSONValue(parsing: generator.document())) }
    }

    @Test("the detached copy of each part of a document is equal to the part, also after a merge", arguments: 600..<612)
    func detached(seed: UInt64) throws {
        var generator = Generator(seed: seed)
        // `detached()` writes and parses parts with white space or duplicate members again. It copies other parts
        // together with their tape (the parsed nodes).
        generator.whitespace = seed % 2 == 0 ? 0 : 10
        generator.duplicates = seed % 4 < 2 ? 0 : 5
        generator.wide = 10
        func check(_ value: JSONValue) throws {
            let copy = value.detached()
            #expect(Model(copy) == Model(value))
            #expect(copy.documentMemory <= value.detachedMemory)
            #expect(copy.withTextBytes { Array($0) } == value.compactBytes)
            try checkBuilt(copy)
            let merged = MergePatch.apply(copy, to: ["a": 1])
            #expect(Model(merged) == Model.mergePatch(Model(["a": 1]), Model(value)))
            for (_, member) in value.members { try check(member) }
            for element in value.elements { try check(element) }
        }
        for _ in 0..<20 { try check(try JSONValue(parsing: generator.document())) }
    }

    @Test("values are equal if and only if their models are equivalent", arguments: 200..<210)
    func equality(seed: UInt64) throws {
        var generator = Generator(seed: seed)
        generator.names = 4
        var previous = try JSONValue(parsing: "{}")
        for _ in 0..<400 {
            let value = try JSONValue(parsing: generator.document(depth: 2))
            #expect((value == previous) == Model(value).isEquivalent(to: Model(previous)))
            #expect(JSONText(value).isEqual(to: previous) == (value == previous))
            let shuffled = Self.shuffled(value, &generator.random)
            #expect(shuffled == value)
            #expect(JSONText(shuffled).isEqual(to: value) && JSONText(value).isEqual(to: shuffled))
            if let part = previous.elements.first(where: { _ in true }) {
                #expect(!JSONText(previous).isEqual(to: part) && !JSONText(part).isEqual(to: previous))
            }
            previous = value
        }
    }

    @Test("apply agrees with the pseudocode of RFC 7396, including the order of members", arguments: 300..<312)
    func apply(seed: UInt64) throws {
        var generator = Generator(seed: seed)
        generator.nulls = 25
        generator.names = 12
        for _ in 0..<100 {
            let target = try JSONValue(parsing: generator.document(depth: 4))
            let patch = try JSONValue(parsing: generator.object(depth: 4))
            let result = MergePatch.apply(patch, to: target)
            #expect(Model(result) == Model.mergePatch(Model(target), Model(patch)))
            try checkBuilt(result)
            #expect(Model(MergePatch.apply(patch, to: nil)) == Model.mergePatch(nil, Model(patch)))
        }
    }

    @Test(
        "merging several layers in one call has the same result as applying them one by one, in order",
        arguments: 400..<412)
    func merge(seed: UInt64) throws {
        var generator = Generator(seed: seed)
        generator.nulls = 25
        generator.names = 12
        for iteration in 0..<60 {
            let layers = try (0..<(iteration % 6)).map { _ in
                try JSONValue(parsing: generator.random.chance(90) ? generator.object() : generator.document())
            }
            let result = MergePatch.merge(layers)
            #expect(Model(result) == layers.reduce(.object([])) { Model.mergePatch($0, Model($1)) })
            try checkBuilt(result)
        }
    }

    @Test("applying a difference to the old value results in the new value", arguments: 500..<512)
    func difference(seed: UInt64) throws {
        var generator = Generator(seed: seed)
        generator.nulls = 3
        generator.names = 10
        var expressible = 0
        for _ in 0..<100 {
            let old = try JSONValue(parsing: generator.object(depth: 4))
            let new =
                generator.random.chance(50)
                ? try JSONValue(parsing: generator.document(depth: 4))
                : MergePatch.apply(try JSONValue(parsing: generator.object(depth: 4)), to: old)
            if let patch = MergePatch.difference(from: old, to: new) {
                expressible += 1
                #expect(MergePatch.apply(patch, to: old) == new)
                try checkBuilt(patch)
            } else {
                #expect(Self.hasNullMember(Model(new)))
            }
            #expect(MergePatch.difference(from: old, to: old)?.compactText == "{}")
        }
        #expect(expressible > 10)
    }

    /// Checks that a value that was built without parsing equals the value that is parsed from its text.
    private func checkBuilt(_ value: JSONValue) throws {
        let bytes = value.compactBytes
        let parsed = try JSONValue(parsing: bytes)
        #expect(parsed == value)
        #expect(Model(parsed) == Model(value))
        #expect(parsed.compactBytes == bytes)
        #expect(value.count == parsed.count)
        for (name, member) in value.members { #expect(value[name] == member) }
    }

    private static func hasNullMember(_ model: Model) -> Bool {
        model.members.contains { $0.value == .null || hasNullMember($0.value) }
    }

    private static func shuffled(_ value: JSONValue, _ random: inout SeededGenerator) -> JSONValue {
        switch value.kind {
        case .array:
            var elements: [JSONValue] = []
            for element in value.elements { elements.append(shuffled(element, &random)) }
            return .array(elements)
        case .object:
            var members: [(String, JSONValue)] = []
            for (name, member) in value.members { members.append((name, shuffled(member, &random))) }
            return .object(members.shuffled(using: &random))
        default: return value
        }
    }
}
