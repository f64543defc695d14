package import LarderJSON

/// The steps of an evaluation, for people.
package struct FlagTrace: Sendable {
    package let outcome: FlagOutcome
    /// The rule with the value of each part. Nil if the flag has no rule, is disabled or is malformed.
    package let rule: Part?

    /// A part of a rule: a call of an operator, an array or a constant.
    package struct Part: Sendable {
        /// What the part is.
        package enum Kind: Sendable {
            case constant, array
            /// A call of the operator with this name.
            case call(String)
            /// A rule of `$evaluators`, which is the only operand.
            case reference(String)
        }

        package let kind: Kind
        /// The operands of an operator, or the elements of an array, in the order of the rule.
        package let operands: [Part]
        /// The value of the part. Nil if the part was not evaluated, or if its evaluation failed. A part that was
        /// evaluated several times, such as the operand of `map`, has its last value.
        package let value: JSONValue?
    }
}
