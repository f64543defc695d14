@_spi(LarderSchema) import LarderJSON

/// The message of a violation: what was expected and what was found.
struct ViolationMessage {
    private let program: SchemaProgram
    private let finding: Finding
    private let found: String
    /// The schema that contains the keyword.
    private let schema: JSONValue

    private static let maxValues = 10

    init(_ program: SchemaProgram, _ finding: Finding, found: String) {
        self.program = program
        self.finding = finding
        self.found = found
        schema = program.locations[finding.node].value
    }

    var text: String {
        switch finding.keyword {
        case .required: return "the member \(name(finding.detail)) is missing"
        case .dependentRequired, .dependencies:
            let (required, trigger) = (finding.detail >> 32, finding.detail & 0xffff_ffff)
            return "the member \(name(trigger)) requires the member \(name(required)), which is missing"
        case .uniqueItems:
            let (later, earlier) = (finding.detail >> 32, finding.detail & 0xffff_ffff)
            return "expected different elements, but the elements \(earlier) and \(later) are equal"
        case .oneOf where finding.detail > 1:
            let count = program.nodes(applicator(.oneOf).nodes).count
            return
                "expected a value that satisfies exactly one of \(count) schemas, but \(found) satisfies \(finding.detail)"
        case .not: return "\(found) is not permitted, because it satisfies the schema in \"not\""
        default: return "expected \(expectation), found \(actual)"
        }
    }

    private var actual: String {
        switch finding.keyword {
        case .minLength, .maxLength: return finding.detail == 1 ? "1 in \(found)" : "\(finding.detail) in \(found)"
        case .contains, .minContains, .maxContains: return "\(finding.detail) in \(found)"
        default: return found
        }
    }

    private var expectation: String {
        switch finding.keyword {
        case .type: return Self.alternatives(types(program.nodes[finding.node].types))
        case .enum:
            let values = schema["enum"].map { Array($0.elements) } ?? []
            let shown = values.prefix(Self.maxValues).map(\.shown)
            return values.count > Self.maxValues
                ? "one of \(shown.joined(separator: ", ")) and \(values.count - Self.maxValues) other values"
                : Self.alternatives(shown)
        case .const: return value("const")
        case .minimum: return "at least \(value("minimum"))"
        case .exclusiveMinimum: return "more than \(value("exclusiveMinimum"))"
        case .maximum: return "at most \(value("maximum"))"
        case .exclusiveMaximum: return "less than \(value("exclusiveMaximum"))"
        case .multipleOf: return "a multiple of \(value("multipleOf"))"
        case .minLength: return "at least \(value("minLength")) characters"
        case .maxLength: return "at most \(value("maxLength")) characters"
        case .pattern: return "a text that matches the pattern \(value("pattern"))"
        case .format: return "a text in the format \(value("format"))"
        case .minProperties: return "at least \(value("minProperties")) members"
        case .maxProperties: return "at most \(value("maxProperties")) members"
        case .minItems: return "at least \(value("minItems")) elements"
        case .maxItems: return "at most \(value("maxItems")) elements"
        case .contains: return "at least 1 element that satisfies \"contains\""
        case .minContains: return "at least \(value("minContains")) elements that satisfy \"contains\""
        case .maxContains: return "at most \(value("maxContains")) elements that satisfy \"contains\""
        case .anyOf: return branches(.anyOf, "at least one")
        case .oneOf: return branches(.oneOf, "exactly one")
        default: return "another value"
        }
    }

    /// The expectation of `anyOf` or `oneOf`: the types that the branches accept if the value has none of these types,
    /// otherwise how many branches must accept it.
    private func branches(_ kind: Applicator.Kind, _ quantity: String) -> String {
        let nodes = program.nodes(applicator(kind).nodes)
        let accepted = nodes.reduce(into: TypeSet()) { $0.formUnion(program.nodes[Int($1)].types) }
        if finding.value.rawKind < 8, accepted.rawValue & 1 << finding.value.rawKind == 0 {
            return Self.alternatives(types(accepted))
        }
        return "a value that satisfies \(quantity) of \(nodes.count) schemas"
    }

    private func applicator(_ kind: Applicator.Kind) -> Applicator {
        let all = program.applicators[program.nodes[finding.node].applicators.range]
        return all.first { $0.kind == kind } ?? Applicator(kind: kind, nodes: PoolRange())
    }

    private func value(_ keyword: String) -> String { schema[keyword]?.shown ?? "" }

    private func name(_ index: Int) -> String { JSONValue.string(program.name(index)).shown }

    private func types(_ types: TypeSet) -> [String] {
        TypeSet.names.filter { types.contains($0.type) && !($0.type == .integer && types.contains(.number)) }
            .map { name, type in
                switch type {
                case .null: "null"
                case .array, .object, .integer: "an \(name)"
                default: "a \(name)"
                }
            }
    }

    /// Joins alternatives: `a`, `a or b`, `a, b or c`.
    private static func alternatives(_ texts: [String]) -> String {
        guard let last = texts.last, texts.count > 1 else { return texts.first ?? "no value" }
        return texts.dropLast().joined(separator: ", ") + " or " + last
    }
}
