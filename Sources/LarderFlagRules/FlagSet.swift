package import LarderJSON

/// The flags of one document in flagd's format, compiled for evaluation.
///
/// A malformed flag does not affect other flags. Names are compared as UTF-8.
package struct FlagSet: Sendable {
    /// The most steps of one evaluation. Each operator, operand, array element and kibibyte of text is a step.
    package static let maxSteps = 10_000
    /// The deepest nesting of operators and arrays in a rule, including the rules that it refers to with `$ref`.
    package static let maxDepth = 64

    /// The flags, sorted by name as bytes.
    package let flags: [Flag]
    /// The metadata of the set; an object.
    package let metadata: JSONValue
    /// Why the document as a whole is malformed; nil if only flags are.
    package let problem: FlagProblem?

    /// Compiles the flags of a document.
    ///
    /// - Parameter document: `{"flags": {…}, "$evaluators": {…}, "metadata": {…}}`; all members are optional
    package init(_ document: JSONValue) {
        flags = []
        metadata = .emptyObject
        problem = nil
    }

    /// The names of the flags, sorted as bytes.
    package var names: [String] { flags.map(\.name) }

    /// The flag called `name`; nil if it does not exist.
    package subscript(name: String) -> Flag? { nil }

    /// Evaluates a flag.
    ///
    /// - Parameters:
    ///   - name: the name of the flag. If the flag does not exist, the outcome is `FLAG_NOT_FOUND`.
    ///   - type: the type of the value; nil for any
    ///   - context: the facts that the rule refers to
    ///   - now: the time in seconds since 1970, for `$flagd.timestamp`
    package func evaluate(
        _ name: String, type: FlagValueType? = nil, context: FlagContext, now: Int64
    ) -> FlagOutcome {
        guard let flag = self[name] else { return FlagOutcome(reason: .error, metadata: metadata) }
        return flag.evaluate(type: type, context: context, now: now)
    }

    /// Evaluates a flag and records how. The parameters are those of ``evaluate(_:type:context:now:)``.
    package func explain(
        _ name: String, type: FlagValueType? = nil, context: FlagContext, now: Int64
    ) -> FlagTrace {
        FlagTrace(outcome: evaluate(name, type: type, context: context, now: now), rule: nil)
    }
}

/// A compiled flag.
package struct Flag: Sendable {
    package let name: String
    package let isEnabled: Bool
    /// The names and values of the variants, in the order of the document.
    package let variants: [(name: String, value: JSONValue)]
    package let defaultVariant: String?
    /// Whether the flag has a rule, which may be malformed.
    package let hasTargeting: Bool
    /// Whether the outcome may change with time, because the rule may refer to `$flagd.timestamp`.
    package let usesTime: Bool
    /// The metadata of the flag, merged over the metadata of the set; an object.
    package let metadata: JSONValue
    /// Why the flag cannot be evaluated. A disabled flag with a malformed rule has a problem, but its outcome is
    /// ``FlagReason/disabled``.
    package let problem: FlagProblem?

    /// Evaluates the flag. The parameters are those of ``FlagSet/evaluate(_:type:context:now:)``.
    package func evaluate(type: FlagValueType? = nil, context: FlagContext, now: Int64) -> FlagOutcome {
        FlagOutcome(reason: .error, metadata: metadata)
    }
}
