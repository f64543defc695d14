import LarderJSON

/// One evaluation of a rule.
struct Evaluation {
    /// The data that variables refer to.
    enum Scope {
        /// The context of the evaluation, and `$flagd`.
        case context
        /// An element of an array.
        case element(RuleValue)
        case reduction(current: RuleValue, accumulator: RuleValue)
    }

    let flag: String
    let now: Int64
    private let context: JSONValue
    var scope = Scope.context
    var budget = Budget()
    /// The parts that have been evaluated, by index of operand: an entry for each part that is being evaluated. Empty if
    /// the evaluation is not recorded.
    private var records: [[Int: FlagTrace.Part]]
    private var recordBudget = Budget(10 * FlagLimits.steps)

    init(flag: String, data: JSONValue, now: Int64, isRecorded: Bool = false) {
        self.flag = flag
        self.now = now
        context = data
        records = isRecorded ? [[:]] : []
    }

    /// The record of the outermost part.
    var record: FlagTrace.Part? { records.first?[0] }

    /// Evaluates a part of a rule.
    /// - Parameter index: the position of the part among the operands of the containing part
    mutating func value(of rule: Rule, at index: Int = 0) throws(EvaluationError) -> RuleValue {
        if records.isEmpty { return try compute(rule) }
        records.append([:])
        let result = Result { () throws(EvaluationError) in try compute(rule) }
        let operands = records.removeLast()
        records[records.count - 1][index] = FlagTrace.Part(
            rule, evaluated: operands, value: try? result.get(), &recordBudget)
        return try result.get()
    }

    private mutating func compute(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        try budget.take()
        switch rule.form {
        case .constant(let value): return value
        case .array: return try .array(of: all(rule))
        case .reference: return try value(of: rule.operands[0])
        case .variable(let names):
            let found = try variable(names)
            return found.isNull && rule.operands.count > 1 ? try value(of: rule.operands[1], at: 1) : found
        case .call(let operation): return try call(operation, rule)
        }
    }

    private mutating func call(_ operation: Operator, _ rule: Rule) throws(EvaluationError) -> RuleValue {
        switch operation {
        case .if: return try condition(rule)
        case .and: return try firstOperand(of: rule, where: false)
        case .or: return try firstOperand(of: rule, where: true)
        case .not: return .bool(!(try operand(rule, 0).isTrue))
        case .isTrue: return .bool(try operand(rule, 0).isTrue)
        case .equal: return .bool(try RuleValue.equal(operand(rule, 0), operand(rule, 1), &budget))
        case .notEqual: return .bool(!(try RuleValue.equal(operand(rule, 0), operand(rule, 1), &budget)))
        case .identical: return .bool(try RuleValue.identical(operand(rule, 0), operand(rule, 1), &budget))
        case .notIdentical: return .bool(!(try RuleValue.identical(operand(rule, 0), operand(rule, 1), &budget)))
        case .less: return try ordered(rule) { $0 < 0 }
        case .lessOrEqual: return try ordered(rule) { $0 <= 0 }
        case .greater: return try ordered(rule) { $0 > 0 }
        case .greaterOrEqual: return try ordered(rule) { $0 >= 0 }
        case .add, .multiply, .subtract, .divide, .remainder, .min, .max: return try arithmetic(operation, rule)
        case .variable: return try computedVariable(rule)
        case .missing: return try .array(of: missing(all(rule)))
        case .missingSome: return try missingSome(rule)
        case .cat: return try concatenation(rule)
        case .substr: return try part(rule)
        case .in:
            let needle = try operand(rule, 0)
            return .bool(try RuleValue.contains(operand(rule, 1), needle, &budget))
        case .merge: return try merged(rule)
        case .map, .filter, .reduce, .all, .some, .none: return try iteration(operation, rule)
        case .fractional: return try fractional(rule)
        case .startsWith, .endsWith:
            guard rule.operands.count == 2, case .string(let text) = try operand(rule, 0),
                case .string(let part) = try operand(rule, 1)
            else { return .null }
            try budget.take(bytes: part.utf8.count)
            let offset = operation == .startsWith ? 0 : text.utf8.count - part.utf8.count
            return .bool(RuleValue.position(of: part, in: text, from: offset, through: offset) != nil)
        case .version: return try version(rule)
        }
    }

    /// The value of an operand; null if there is none.
    mutating func operand(_ rule: Rule, _ index: Int) throws(EvaluationError) -> RuleValue {
        index < rule.operands.count ? try value(of: rule.operands[index], at: index) : .null
    }

    private mutating func all(_ rule: Rule) throws(EvaluationError) -> [RuleValue] {
        var values: [RuleValue] = []
        values.reserveCapacity(rule.operands.count)
        for (index, operand) in rule.operands.enumerated() { values.append(try value(of: operand, at: index)) }
        return values
    }

    private mutating func condition(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        var index = 0
        while index + 1 < rule.operands.count {
            if try operand(rule, index).isTrue { return try operand(rule, index + 1) }
            index += 2
        }
        return try operand(rule, index)
    }

    /// The first operand that is true or false, otherwise the last one.
    private mutating func firstOperand(of rule: Rule, where truth: Bool) throws(EvaluationError) -> RuleValue {
        var last = RuleValue.null
        for (index, operand) in rule.operands.enumerated() {
            last = try value(of: operand, at: index)
            if last.isTrue == truth { break }
        }
        return last
    }

    /// Compares two operands, or three: `{"<": [1, x, 5]}`.
    private mutating func ordered(_ rule: Rule, _ isOrdered: (Int) -> Bool) throws(EvaluationError) -> RuleValue {
        let (first, second) = (try operand(rule, 0), try operand(rule, 1))
        guard let order = try RuleValue.order(first, second, &budget), isOrdered(order) else { return .bool(false) }
        if rule.operands.count < 3 { return .bool(true) }
        let third = try operand(rule, 2)
        if third.isNull { return .bool(true) }
        return .bool(try RuleValue.order(second, third, &budget).map(isOrdered) ?? false)
    }

    private mutating func computedVariable(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        let found = try variable(try operand(rule, 0))
        return found.isNull ? try operand(rule, 1) : found
    }

    private mutating func missing(_ operands: [RuleValue]) throws(EvaluationError) -> [RuleValue] {
        var missing: [RuleValue] = []
        for name in try operands.first?.elements(&budget) ?? operands {
            try budget.take()
            switch try variable(name) {
            case .null: missing.append(name)
            case .string(let text) where text.isEmpty: missing.append(name)
            default: break
            }
        }
        return missing
    }

    private mutating func missingSome(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        let (wanted, names) = (try operand(rule, 0), try operand(rule, 1))
        guard let count = try names.elements(&budget)?.count else { return try .array(of: []) }
        let missing = try missing([names])
        return try .array(of: Double(count - missing.count) >= wanted.approximation ? [] : missing)
    }

    private mutating func concatenation(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        var text = ""
        for (index, operand) in rule.operands.enumerated() {
            try value(of: operand, at: index).append(to: &text, &budget)
        }
        return .string(text)
    }

    /// `substr`, which counts Unicode scalars.
    private mutating func part(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        let text = try operand(rule, 0).text(&budget)
        let start = try operand(rule, 1).approximation
        let length = try operand(rule, 2)
        try budget.take(text.utf8.count >> 8)
        let scalars = text.unicodeScalars
        let count = scalars.count
        var first = start.isNaN ? 0 : Int(max(-1e9, min(1e9, start)))
        // A position before the start of the text is its start.
        first = first < 0 ? max(0, count + first) : min(first, count)
        var end = count
        if !length.isNull {
            let wanted = length.approximation
            let size = wanted.isNaN ? 0 : Int(max(-1e9, min(1e9, wanted)))
            end = max(first, size < 0 ? count + size : min(count, first + size))
        }
        let from = scalars.index(scalars.startIndex, offsetBy: first)
        return .string(String(scalars[from..<scalars.index(from, offsetBy: end - first)]))
    }

    private mutating func merged(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        var merged: [RuleValue] = []
        for (index, operand) in rule.operands.enumerated() {
            let part = try value(of: operand, at: index)
            merged += try part.elements(&budget) ?? [part]
        }
        return try .array(of: merged)
    }

    private mutating func version(_ rule: Rule) throws(EvaluationError) -> RuleValue {
        guard rule.operands.count == 3 else { return .null }
        let (left, comparison, right) = (try operand(rule, 0), try operand(rule, 1), try operand(rule, 2))
        let (leftText, rightText) = (try left.text(&budget), try right.text(&budget))
        try budget.take((leftText.utf8.count + rightText.utf8.count) >> 8)
        guard case .string(let comparison) = comparison, let leftVersion = SemanticVersion(leftText),
            let rightVersion = SemanticVersion(rightText)
        else { return .null }
        return leftVersion.satisfies(comparison, rightVersion).map { .bool($0) } ?? .null
    }
}

/// Variables.
extension Evaluation {
    /// The data that the value of an operand of `var` refers to; null if there are none.
    private mutating func variable(_ name: RuleValue) throws(EvaluationError) -> RuleValue {
        if name.isNull { return try variable([]) }
        let text = try name.text(&budget)
        try budget.take(text.utf8.count >> 5)
        return try variable(Rule.names(text))
    }

    mutating func variable(_ names: [String]) throws(EvaluationError) -> RuleValue {
        switch scope {
        case .context:
            if let first = names.first, first.utf8.first == UInt8(ascii: "$"), first.isSpelled(as: "$flagd") {
                return evaluationFact(names.dropFirst())
            }
            if names.count == 1, let value = context[names[0]] { return try scalar(value) }
            return try value(at: names[...], in: context)
        case .element(let element): return try value(at: names[...], in: element)
        case .reduction(let current, let accumulator):
            guard let first = names.first else {
                let members = [("current", current), ("accumulator", accumulator)]
                var values: [(String, JSONValue)] = []
                for (name, value) in members { values.append((name, try value.json(&budget))) }
                return .json(.object(values))
            }
            if first.isSpelled(as: "current") { return try value(at: names.dropFirst(), in: current) }
            return first.isSpelled(as: "accumulator") ? try value(at: names.dropFirst(), in: accumulator) : .null
        }
    }

    /// The value of a variable.
    private mutating func scalar(_ value: JSONValue) throws(EvaluationError) -> RuleValue {
        if value.kind == .string || value.kind == .number { try budget.take(bytes: value.textSize) }
        return RuleValue(value)
    }

    private func evaluationFact(_ names: ArraySlice<String>) -> RuleValue {
        guard let name = names.first else { return .json(["flagKey": .string(flag), "timestamp": .int(Int(now))]) }
        if names.count == 1, name.isSpelled(as: "flagKey") { return .string(flag) }
        return names.count == 1 && name.isSpelled(as: "timestamp") ? .int(Int(now)) : .null
    }

    private mutating func value(
        at names: ArraySlice<String>, in value: RuleValue
    ) throws(EvaluationError) -> RuleValue {
        guard let name = names.first else { return value }
        switch value {
        case .json(let value): return try self.value(at: names, in: value)
        case .array(let elements, _):
            if names.count == 1, name.isSpelled(as: "length") { return .int(elements.count) }
            guard let index = Self.index(name), index < elements.count else { return .null }
            return try self.value(at: names.dropFirst(), in: elements[index])
        default: return .null
        }
    }

    private mutating func value(
        at names: ArraySlice<String>, in value: JSONValue
    ) throws(EvaluationError) -> RuleValue {
        var value = value
        for (position, name) in names.enumerated() {
            if let member = value[name] {
                value = member
            } else if value.kind == .array {
                if name.isSpelled(as: "length"), position == names.count - 1 { return .int(value.count) }
                // Finding an element may visit all elements before it.
                try budget.take(value.count >> 5)
                guard let index = Self.index(name), let element = value[index] else { return .null }
                value = element
            } else {
                return .null
            }
        }
        return try scalar(value)
    }

    private static func index(_ name: String) -> Int? {
        guard let index = Int(name), index >= 0, String(index).isSpelled(as: name) else { return nil }
        return index
    }
}
