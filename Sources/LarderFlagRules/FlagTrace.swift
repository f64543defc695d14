package import LarderJSON

/// The steps of an evaluation, for people.
package struct FlagTrace: Sendable {
    package let outcome: FlagOutcome
    /// The rule with the value of each part. Nil if the flag has no rule, is disabled or is malformed.
    package let rule: Part?

    /// A part of a rule: a call of an operator, an array or a constant.
    package struct Part: Sendable {
        package enum Kind: Sendable, Equatable {
            case constant, array
            /// A call of the operator with this name.
            case call(String)
            /// A rule of `$evaluators`, which is the only operand.
            case reference(String)
        }

        package let kind: Kind
        /// The operands of an operator, or the elements of an array, in the order of the rule. A part that was not
        /// evaluated has none.
        package let operands: [Part]
        /// Whether the part was evaluated, and is thus on the branch that was taken.
        package let isEvaluated: Bool
        /// The value of the part, or of a constant. Nil if the part was not evaluated, if its evaluation failed, or if
        /// the values of the rule are very large. A part that was evaluated several times, such as the operand of
        /// `map`, has its last value.
        package let value: JSONValue?
    }
}

extension FlagTrace.Part {
    /// - Parameters:
    ///   - evaluated: the records of the operands that were evaluated, by index
    ///   - value: nil if the evaluation failed
    init(_ rule: Rule, evaluated: [Int: FlagTrace.Part], value: RuleValue?, _ budget: inout Budget) {
        self.init(
            kind: Kind(rule.form),
            operands: rule.operands.enumerated().map { evaluated[$0] ?? FlagTrace.Part(unevaluated: $1, &budget) },
            isEvaluated: true, value: value.flatMap { try? $0.json(&budget) })
    }

    private init(unevaluated rule: Rule, _ budget: inout Budget) {
        var value: JSONValue?
        if case .constant(let constant) = rule.form { value = try? constant.json(&budget) }
        self.init(kind: Kind(rule.form), operands: [], isEvaluated: false, value: value)
    }
}

extension FlagTrace.Part.Kind {
    fileprivate init(_ form: Rule.Form) {
        switch form {
        case .constant: self = .constant
        case .array: self = .array
        case .reference(let name): self = .reference(name)
        case .variable: self = .call(Operator.variable.rawValue)
        case .call(let operation): self = .call(operation.rawValue)
        }
    }
}
