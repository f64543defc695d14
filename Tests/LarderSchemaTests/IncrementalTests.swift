import LarderJSON
import LarderSchema
import TestSupport
import Testing

@Suite("Validation after a change")
struct IncrementalTests {
    @Test(
        "validation after a random change returns the same violations as a complete validation",
        arguments: [false, true])
    func random(isDraft7: Bool) throws {
        let seed = SeededGenerator.randomSeed
        var random = RandomSchema(seed: seed, isDraft7: isDraft7)
        var (changes, rejected) = (0, 0)
        for _ in 0..<1_500 {
            let schema = try JSONSchema(random.document())
            for _ in 0..<8 {
                let value = random.value(depth: 4)
                guard schema.isValid(value) else { continue }
                for _ in 0..<4 {
                    let path = random.path(in: value)
                    let changed = random.changed(value, at: path)
                    let found = schema.validate(changed, previous: value, changedAt: path)
                    changes += 1
                    rejected += found.isEmpty ? 0 : 1
                    #expect(
                        found == schema.validate(changed),
                        "\(value) at \(path.pointer) to \(changed), seed \(seed)")
                }
            }
        }
        #expect(changes > 1_000)
        #expect(rejected > 100)
    }

    @Test(
        "validation after a change finds violations by added, removed and changed values",
        arguments: [
            (#"{"required": ["a"]}"#, #"{"a": 1}"#, "/a", "{}"),
            (#"{"maxProperties": 1}"#, #"{"a": 1}"#, "/b", #"{"a": 1, "b": 2}"#),
            (#"{"minProperties": 1}"#, #"{"a": 1}"#, "/a", "{}"),
            (#"{"additionalProperties": {"type": "null"}}"#, "{}", "/a/b", #"{"a": {"b": 1}}"#),
            (#"{"propertyNames": {"maxLength": 1}}"#, "{}", "/ab", #"{"ab": 1}"#),
            (#"{"dependentRequired": {"a": ["b"]}}"#, #"{"b": 1}"#, "/a", #"{"a": 1}"#),
            (#"{"properties": {"a": {"type": "string"}}}"#, #"{"a": "x"}"#, "/a/b", #"{"a": {"b": 1}}"#),
            (#"{"properties": {"a": {"items": {"type": "integer"}}}}"#, #"{"a": [1]}"#, "/a/0", #"{"a": ["x"]}"#),
            (#"{"properties": {"a": {"maxItems": 1}}}"#, #"{"a": [1]}"#, "/a/1", #"{"a": [1, 2]}"#),
            (#"{"patternProperties": {"^a": {"maximum": 1}}}"#, #"{"ab": 1}"#, "/ab", #"{"ab": 2}"#),
            (#"{"properties": {"a": {"enum": [{"b": 1}]}}}"#, #"{"a": {"b": 1}}"#, "/a/b", #"{"a": {"b": 2}}"#),
            (#"{"properties": {"a": {"uniqueItems": true}}}"#, #"{"a": [1, 2]}"#, "/a/0", #"{"a": [2, 2]}"#),
            (#"{"properties": {"a": {"contains": {"const": 1}}}}"#, #"{"a": [1, 2]}"#, "/a/0", #"{"a": [2, 2]}"#),
            (#"{"properties": {"a": true}, "unevaluatedProperties": false}"#, "{}", "/b", #"{"b": 2}"#),
            (#"{"not": {"properties": {"a": {"const": 2}}}}"#, #"{"a": 1}"#, "/a", #"{"a": 2}"#),
            (#"{"type": "object"}"#, "{}", "", "[]"),
        ])
    func invalid(schema: String, previous: String, path: String, value: String) throws {
        let schema = try compile(schema)
        let (previous, value) = (try JSONValue(parsing: previous), try JSONValue(parsing: value))
        try #require(schema.isValid(previous))
        let path = try JSONPath(parsing: path)
        let found = schema.validate(value, previous: previous, changedAt: path)
        #expect(!found.isEmpty)
        #expect(found == schema.validate(value))
        #expect(schema.validate(previous, previous: previous, changedAt: path).isEmpty)
    }

    @Test("validation after a change does not evaluate values that the change does not affect")
    func unaffected() throws {
        // `b` is invalid in both documents. A complete validation would report it.
        let schema = try compile(
            #"{"allOf": [{"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}]}"#)
        let found = schema.validate(["a": 2, "b": "x"], previous: ["a": 1, "b": "x"], changedAt: JSONPath(["a"]))
        #expect(found.isEmpty)
    }
}

extension RandomSchema {
    /// The path of a random value in a document, or sometimes a path without a value.
    mutating func path(in value: JSONValue) -> JSONPath {
        var segments: [String] = []
        var value = value
        while segments.count < 4, !Bool.random(using: &generator) || segments.isEmpty {
            switch value.kind {
            case .object:
                let name = value.members.map(\.name).randomElement(using: &generator)
                guard let name, Int.random(in: 0..<4, using: &generator) > 0 else { return JSONPath(segments + ["b"]) }
                segments.append(name)
                value = value[name] ?? .null
            case .array:
                guard let index = (0..<value.count).randomElement(using: &generator) else { return JSONPath(segments) }
                segments.append(String(index))
                value = value[index] ?? .null
            default: return JSONPath(segments)
            }
        }
        return JSONPath(segments)
    }

    /// The document with another value at a path or, at random, without the member at the path.
    mutating func changed(_ value: JSONValue, at path: JSONPath) -> JSONValue {
        let isRemoved = Int.random(in: 0..<4, using: &generator) == 0
        return replace(value, path.segments[...], by: isRemoved ? nil : self.value(depth: 1))
    }

    private func replace(_ value: JSONValue, _ path: ArraySlice<String>, by new: JSONValue?) -> JSONValue {
        guard let name = path.first else { return new ?? .null }
        switch value.kind {
        case .object:
            var members = value.members.map { ($0.name, $0.value) }
            guard path.count > 1 || new != nil else { return .object(members.filter { $0.0 != name }) }
            let member = replace(value[name] ?? .null, path.dropFirst(), by: new)
            if let index = members.firstIndex(where: { $0.0 == name }) {
                members[index].1 = member
            } else {
                members.append((name, member))
            }
            return .object(members)
        case .array:
            var elements = Array(value.elements)
            guard let index = Int(name), index < elements.count else { return value }
            elements[index] = replace(elements[index], path.dropFirst(), by: new)
            return .array(elements)
        default: return value
        }
    }
}
