import LarderJSON
import TestSupport

/// Generates random schemas, and values that often satisfy them. Both use few distinct names and values, so that the
/// keywords often apply to the values.
struct RandomSchema {
    var generator: SeededGenerator
    /// Whether to generate schemas of draft-07 instead of 2020-12.
    var isDraft7 = false
    /// Whether to use `unevaluated…`.
    var usesUnevaluated = true

    private static let names = ["a", "b", "c", "ab", "é"]
    private static let definitions = ["x", "y", "z"]

    init(seed: UInt64, isDraft7: Bool = false) {
        generator = SeededGenerator(seed: seed)
        self.isDraft7 = isDraft7
    }

    private mutating func pick<T>(_ values: [T]) -> T { values[Int.random(in: 0..<values.count, using: &generator)] }
    private mutating func number(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &generator) }
    private mutating func isOne(in count: Int) -> Bool { number(1...count) == 1 }
    private mutating func name() -> String { pick(Self.names) }

    // MARK: Values

    mutating func value(depth: Int = 3, booleans: Bool = true) -> JSONValue {
        switch number(0...(depth > 0 ? 9 : 5)) {
        case 0: return .null
        case 1: return booleans ? .bool(isOne(in: 2)) : .null
        case 2, 3: return scalarNumber()
        case 4, 5: return .string(pick(["", "a", "b", "ab", "abc", "é", "12"]))
        case 6, 7: return .array((0..<number(0...4)).map { _ in value(depth: depth - 1, booleans: booleans) })
        default: return .object((0..<number(0...4)).map { _ in (name(), value(depth: depth - 1, booleans: booleans)) })
        }
    }

    private mutating func scalarNumber() -> JSONValue {
        // The numbers have few digits, because Python compares longer ones imprecisely.
        isOne(in: 3) ? .double(Double(number(-8...8)) / 2) : .int(number(-3...6))
    }

    // MARK: Schemas

    /// A complete schema, which contains the definitions that its references name.
    mutating func document() -> JSONValue {
        let dialect =
            isDraft7 ? "http://json-schema.org/draft-07/schema#" : "https://json-schema.org/draft/2020-12/schema"
        var members: [(String, JSONValue)] = [("$schema", .string(dialect))]
        let root = schema(depth: 3)
        if root.kind == .object { members += root.members.filter { $0.name != "$ref" }.map { ($0.name, $0.value) } }
        // A keyword of a definition that applies to the same value as the definition refers only to later definitions.
        // Otherwise, references could follow each other without end. The schema of a member or element may refer to any
        // definition, because each such reference goes one level deeper into the value.
        var definitions: [(String, JSONValue)] = []
        for index in Self.definitions.indices {
            definitions.append(
                (Self.definitions[index], schema(depth: 2, references: Array(Self.definitions[(index + 1)...]))))
        }
        members.append((isDraft7 ? "definitions" : "$defs", .object(definitions)))
        return .object(members)
    }

    private mutating func schema(depth: Int, references: [String] = RandomSchema.definitions) -> JSONValue {
        if isOne(in: 12) { return .bool(isOne(in: 2) || isOne(in: 2)) }
        if !references.isEmpty, isOne(in: 8) { return ["$ref": reference(pick(references))] }
        var members: [(String, JSONValue)] = []
        if isOne(in: 2) { members.append(("type", types())) }
        for _ in 0..<number(1...3) { members += keyword(depth: depth, references) }
        // The generated schema may contain a keyword twice. The last one then counts.
        return .object(members)
    }

    private func reference(_ name: String) -> JSONValue { .string("#/\(isDraft7 ? "definitions" : "$defs")/\(name)") }

    private mutating func types() -> JSONValue {
        let names = ["null", "boolean", "integer", "number", "string", "array", "object", "object", "array"]
        if isOne(in: 2) { return .string(pick(names)) }
        return .array(Set((0..<number(1...3)).map { _ in pick(names) }).sorted().map { .string($0) })
    }

    private mutating func keyword(depth: Int, _ references: [String]) -> [(String, JSONValue)] {
        switch number(0...(depth > 0 ? 12 : 4)) {
        case 0: return [(pick(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]), .int(number(-2...4)))]
        case 1: return [isOne(in: 2) ? ("multipleOf", .int(number(1...3))) : ("multipleOf", 0.5)]
        case 2:
            if isOne(in: 2) { return [("pattern", .string(pick(["^a", "b$", "^[a-z]+$", "^.$", "[0-9]"])))] }
            return [(pick(["minLength", "maxLength"]), .int(number(0...3)))]
        case 3:
            // Python considers `true` equal to 1 in arrays and objects, so these contain no booleans here.
            let depth = isOne(in: 2) ? 0 : 1
            if isOne(in: 2) { return [("const", value(depth: depth, booleans: depth == 0))] }
            return [("enum", .array((0..<number(1...4)).map { _ in value(depth: depth, booleans: depth == 0) }))]
        case 4:
            let name = pick(["minItems", "maxItems", "minProperties", "maxProperties"])
            return isOne(in: 4) ? [("uniqueItems", true)] : [(name, .int(number(0...3)))]
        case 5, 6:
            return [("properties", schemas(depth))]
                + (isOne(in: 3) ? [("additionalProperties", schema(depth: depth - 1))] : [])
        case 7: return objectKeyword(depth, references)
        case 8, 9: return arrayKeyword(depth)
        case 10:
            let name = pick(["allOf", "anyOf", "oneOf"])
            return [(name, .array((0..<number(1...3)).map { _ in schema(depth: depth - 1, references: references) }))]
        case 11:
            var members = [("if", schema(depth: depth - 1, references: references))]
            if !isOne(in: 4) { members.append(("then", schema(depth: depth - 1, references: references))) }
            if !isOne(in: 4) { members.append(("else", schema(depth: depth - 1, references: references))) }
            return members
        default: return [("not", schema(depth: depth - 1, references: references))]
        }
    }

    private mutating func schemas(_ depth: Int, _ references: [String] = RandomSchema.definitions) -> JSONValue {
        .object((0..<number(1...3)).map { _ in (name(), schema(depth: depth - 1, references: references)) })
    }

    private mutating func objectKeyword(_ depth: Int, _ references: [String]) -> [(String, JSONValue)] {
        let required: JSONValue = .array(Set((0..<number(1...2)).map { _ in name() }).sorted().map { .string($0) })
        switch number(0...5) {
        case 0: return [("required", required)]
        case 1: return [("patternProperties", .object([(pick(["^a", "b", "^.$"]), schema(depth: depth - 1))]))]
        case 2: return [("propertyNames", ["maxLength": .int(number(1...2))])]
        case 3:
            let dependent: JSONValue = .object([
                (name(), isOne(in: 2) ? required : schema(depth: depth - 1, references: references))
            ])
            guard !isDraft7 else { return [("dependencies", dependent)] }
            return [
                ("dependentRequired", .object([(name(), required)])), ("dependentSchemas", schemas(depth, references)),
            ]
        case 4: return [("additionalProperties", schema(depth: depth - 1))]
        default:
            guard !isDraft7, usesUnevaluated else { return [("required", required)] }
            return [("unevaluatedProperties", schema(depth: depth - 1))]
        }
    }

    /// A schema for `additionalItems`. It is never `true`, because Python reports an error for that.
    private mutating func additionalItems(_ depth: Int) -> JSONValue {
        let schema = schema(depth: depth - 1)
        return schema.bool == true ? .emptyObject : schema
    }

    private mutating func arrayKeyword(_ depth: Int) -> [(String, JSONValue)] {
        let list: JSONValue = .array((0..<number(1...2)).map { _ in schema(depth: depth - 1) })
        switch number(0...3) {
        case 0: return [("items", schema(depth: depth - 1))]
        case 1:
            guard isDraft7 else {
                return [("prefixItems", list)] + (isOne(in: 2) ? [("items", schema(depth: depth - 1))] : [])
            }
            return [("items", list), ("additionalItems", additionalItems(depth))]
        case 2:
            guard !isDraft7, isOne(in: 2) else { return [("contains", schema(depth: depth - 1))] }
            return [
                ("contains", schema(depth: depth - 1)), (pick(["minContains", "maxContains"]), .int(number(0...2))),
            ]
        default:
            guard !isDraft7, usesUnevaluated else { return [("items", schema(depth: depth - 1))] }
            return [("unevaluatedItems", schema(depth: depth - 1))]
        }
    }
}
