import LarderJSON

/// The operators of flagd's rules. The raw values are their names.
enum Operator: String {
    case variable = "var"
    case missing, missingSome = "missing_some"
    case `if`, and, or
    case not = "!"
    case isTrue = "!!"
    case equal = "=="
    case notEqual = "!="
    case identical = "==="
    case notIdentical = "!=="
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="
    case add = "+"
    case subtract = "-"
    case multiply = "*"
    case divide = "/"
    case remainder = "%"
    case min, max
    case cat, substr, `in`, merge
    case map, filter, reduce, all, some, none
    case fractional
    case startsWith = "starts_with"
    case endsWith = "ends_with"
    case version = "sem_ver"
}

/// A part of a compiled rule, with the parts in it.
final class Rule: Sendable {
    enum Form: Sendable {
        case constant(RuleValue)
        case array
        /// A rule of `$evaluators`, which is the only operand and is shared by all references.
        case reference(String)
        /// The operator `var` with these names as its first operand. No names refer to all data.
        case variable([String])
        case call(Operator)
    }

    let form: Form
    let operands: [Rule]
    /// The number of nested calls, references and arrays.
    let height: Int
    /// Whether the value may depend on `$flagd.timestamp`.
    let usesTime: Bool

    init(_ form: Form, _ operands: [Rule] = []) {
        self.form = form
        self.operands = operands
        let inner = operands.reduce(0) { max($0, $1.height) }
        var usesTime = operands.contains { $0.usesTime }
        switch form {
        case .constant(.array(_, let depth)): height = depth
        case .constant: height = 0
        case .variable(let names):
            height = inner + 1
            usesTime = usesTime || Self.isTime(names)
        case .call(.variable), .call(.missing), .call(.missingSome):
            height = inner + 1
            // The names are computed, or may be `$flagd.timestamp`.
            usesTime = true
        case .array, .reference, .call: height = inner + 1
        }
        self.usesTime = usesTime
    }

    private static func isTime(_ names: [String]) -> Bool {
        guard let first = names.first, first.isSpelled(as: "$flagd") else { return false }
        return names.count == 1 || names[1].isSpelled(as: "timestamp")
    }

    /// The names in the first operand of `var`. No names refer to all data.
    static func names(_ text: String) -> [String] {
        if text.isEmpty { return [] }
        // A full stop and a combining character after it are one `Character`.
        return text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).map { String($0) ?? "" }
    }
}

/// Compiles the rules of one document. Each rule of `$evaluators` is compiled once.
struct RuleCompiler {
    private let evaluators: JSONValue?
    private var compiled: [ExactText: Result<Rule, FlagProblem>] = [:]
    /// The evaluators that contain the current rule, outermost first.
    private var references: [ExactText] = []
    /// The place of the current rule in the document.
    private var path: [String]

    /// - Parameter evaluators: the member `$evaluators` of the document
    init(evaluators: JSONValue?) {
        self.evaluators = evaluators
        path = ["$evaluators"]
        // All evaluators of a chain that is too deep are too deep, so that each is compiled once.
        for (name, _) in evaluators?.members ?? JSONValue.emptyObject.members { _ = evaluator(name) }
    }

    /// Compiles the rule at `path`.
    mutating func compile(_ value: JSONValue, at path: [String]) throws(FlagProblem) -> Rule {
        self.path = path
        return try compile(value, depth: 0)
    }

    private mutating func compile(_ value: JSONValue, depth: Int) throws(FlagProblem) -> Rule {
        if depth > FlagLimits.depth { throw tooDeep }
        switch value.kind {
        case .array:
            let elements = try operands(value, depth: depth)
            let constants = elements.compactMap { element in
                if case .constant(let value) = element.form { value } else { nil }
            }
            guard constants.count == elements.count, let array = try? RuleValue.array(of: constants) else {
                return try limited(Rule(.array, elements))
            }
            return Rule(.constant(array))
        case .object where value.count > 0: return try call(value, depth: depth)
        default: return Rule(.constant(RuleValue(value)))
        }
    }

    private mutating func call(_ value: JSONValue, depth: Int) throws(FlagProblem) -> Rule {
        var names: [String] = []
        for (name, _) in value.members {
            names.append("\"\(name.prefix(40))\"")
            if names.count == 4 { break }
        }
        guard value.count == 1, let (name, argument) = value.members.first(where: { _ in true }) else {
            throw problem(
                "a rule must have one operator, but this one has \(value.count): \(names.joined(separator: ", "));"
                    + " layers that each set an operator are merged, so remove all but one")
        }
        path.append(name)
        defer { path.removeLast() }
        if name.isSpelled(as: "$ref") {
            guard let wanted = argument.string else {
                throw problem("$ref must be the name of an evaluator, not \(argument.kind.article)")
            }
            return try limited(Rule(.reference(wanted), [evaluator(wanted).get()]))
        }
        guard let operation = Operator(rawValue: name), operation.rawValue.isSpelled(as: name) else {
            throw problem("there is no operator \(names[0])")
        }
        let operands =
            argument.kind == .array
            ? try operands(argument, depth: depth) : [try compile(argument, depth: depth + 1)]
        if operation == .variable, let names = Self.constantNames(operands.first) {
            return try limited(Rule(.variable(names), operands))
        }
        return try limited(Rule(.call(operation), operands))
    }

    private mutating func operands(_ array: JSONValue, depth: Int) throws(FlagProblem) -> [Rule] {
        var operands: [Rule] = []
        for element in array.elements {
            path.append(String(operands.count))
            defer { path.removeLast() }
            operands.append(try compile(element, depth: depth + 1))
        }
        return operands
    }

    /// The names in the first operand of `var`; nil if they are computed.
    private static func constantNames(_ operand: Rule?) -> [String]? {
        guard let operand else { return [] }
        guard case .constant(let value) = operand.form else { return nil }
        switch value {
        case .null: return []
        case .string(let text): return Rule.names(text)
        case .int(let index): return [String(index)]
        default: return nil
        }
    }

    private mutating func evaluator(_ name: String) -> Result<Rule, FlagProblem> {
        let key = ExactText(name)
        if let result = compiled[key] { return result }
        guard let rule = evaluators?[name] else { return .failure(problem("$evaluators has no rule \"\(name)\"")) }
        if references.contains(key) {
            return .failure(problem("the evaluator \"\(name)\" refers to itself"))
        }
        if references.count > FlagLimits.depth { return .failure(tooDeep) }
        let outer = path
        path = ["$evaluators", name]
        references.append(key)
        defer {
            references.removeLast()
            path = outer
        }
        let result = Result { () throws(FlagProblem) in try compile(rule, depth: 0) }
        compiled[key] = result
        return result
    }

    private func limited(_ rule: Rule) throws(FlagProblem) -> Rule {
        if rule.height > FlagLimits.depth { throw tooDeep }
        return rule
    }

    private var tooDeep: FlagProblem {
        FlagProblem(
            code: .general, message: "the rule is nested more than \(FlagLimits.depth) levels deep",
            path: JSONPath(path))
    }

    private func problem(_ message: String) -> FlagProblem {
        FlagProblem(code: .parseError, message: message, path: JSONPath(path))
    }
}
