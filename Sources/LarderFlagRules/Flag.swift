package import LarderJSON

/// A compiled flag.
package final class Flag: Sendable {
    package let name: String
    /// The metadata of the flag, merged over the metadata of the set; an object.
    package let metadata: JSONValue
    /// Whether the flag has a rule, which may be malformed.
    package let hasTargeting: Bool
    /// Why the flag cannot be evaluated. A disabled flag with a malformed rule has a problem, but its outcome is
    /// ``FlagReason/disabled``.
    package let problem: FlagProblem?

    /// The ``problem``, or a default variant without a value; for lists. Such a flag can be
    /// evaluated for the contexts for which its rule selects another variant.
    package var listedProblem: FlagProblem? {
        if let problem { return problem }
        guard let defaultVariant, value(of: defaultVariant) == nil else { return nil }
        return FlagProblem(
            code: .general, message: Self.missing(defaultVariant, "defaultVariant is"),
            path: JSONPath(["flags", name, "defaultVariant"]))
    }
    private let members: Members
    private let rule: Rule?

    package var isEnabled: Bool { members.isEnabled }
    /// The names and values of the variants, in the order of the document. None if the flag is malformed.
    package var variants: [(name: String, value: JSONValue)] { members.variants }
    package var defaultVariant: String? { members.defaultVariant }
    /// Whether the outcome may change with time, because the rule may refer to `$flagd.timestamp`.
    package var usesTime: Bool { rule?.usesTime ?? false }

    /// Compiles a flag.
    init(_ name: String, _ value: JSONValue, setMetadata: JSONValue, _ compiler: inout RuleCompiler) {
        let path = ["flags", name]
        let targeting = value.present("targeting").flatMap { $0.kind == .object && $0.count == 0 ? nil : $0 }
        var (members, rule, problem) = (Members(), nil as Rule?, nil as FlagProblem?)
        do throws(FlagProblem) {
            members = try Members(value, path)
            if let targeting {
                guard targeting.kind == .object else {
                    throw FlagProblem(
                        "targeting must be an object, not \(targeting.kind.article)", path + ["targeting"])
                }
                rule = try compiler.compile(targeting, at: path + ["targeting"])
            }
        } catch {
            problem = error
        }
        self.name = name
        self.metadata =
            members.metadata.map {
                .object((Array(setMetadata.members) + Array($0.members)).map { ($0.name, $0.value) })
            }
            ?? setMetadata
        hasTargeting = targeting != nil
        (self.members, self.rule, self.problem) = (members, rule, problem)
    }

    /// The members of a flag except the rule.
    private struct Members {
        var isEnabled = true
        var variants: [(name: String, value: JSONValue)] = []
        var defaultVariant: String?
        var metadata: JSONValue?

        init() {}

        init(_ value: JSONValue, _ path: [String]) throws(FlagProblem) {
            guard value.kind == .object else {
                throw FlagProblem("a flag must be an object, not \(value.kind.article)", path)
            }
            guard let state = value.member("state"), state.isString("ENABLED") || state.isString("DISABLED") else {
                throw FlagProblem("state must be \"ENABLED\" or \"DISABLED\"", path + ["state"])
            }
            isEnabled = state.isString("ENABLED")
            guard let variants = value.member("variants"), variants.kind == .object, variants.count > 0 else {
                throw FlagProblem("variants must be an object with at least one member", path + ["variants"])
            }
            self.variants = variants.members.map { ($0, $1) }
            if let variant = value.present("defaultVariant") {
                // The variants of a boolean flag may be called `true` and `false`.
                guard let name = variant.string ?? variant.bool?.description else {
                    throw FlagProblem("defaultVariant must be the name of a variant or null", path + ["defaultVariant"])
                }
                defaultVariant = name.isEmpty ? nil : name
            }
            metadata = value.present("metadata")
            if let metadata, let problem = Flag.metadataProblem(metadata, path + ["metadata"]) { throw problem }
        }
    }

    static func metadataProblem(_ metadata: JSONValue, _ path: [String]) -> FlagProblem? {
        guard metadata.kind == .object else {
            return FlagProblem("metadata must be an object, not \(metadata.kind.article)", path)
        }
        for (name, value) in metadata.members {
            if name.isEmpty { return FlagProblem("the names of metadata must not be empty", path) }
            if value.kind != .string, value.kind != .number, value.kind != .bool {
                return FlagProblem("metadata must be strings, numbers and booleans", path + [name])
            }
        }
        return nil
    }

    /// Evaluates the flag. The parameters are those of ``FlagSet/evaluate(_:type:context:now:)``.
    package func evaluate(type: FlagValueType? = nil, context: FlagContext, now: Int64) -> FlagOutcome {
        if let outcome = outcomeWithoutRule { return outcome }
        guard let rule else { return outcome(.isStatic, defaultVariant, type) }
        var evaluation = Evaluation(flag: name, data: context.object, now: now)
        return outcome(of: rule, &evaluation, type)
    }

    /// Evaluates the flag and records how. The parameters are those of ``FlagSet/evaluate(_:type:context:now:)``.
    package func explain(type: FlagValueType? = nil, context: FlagContext, now: Int64) -> FlagTrace {
        if let outcome = outcomeWithoutRule { return FlagTrace(outcome: outcome, rule: nil) }
        guard let rule else { return FlagTrace(outcome: outcome(.isStatic, defaultVariant, type), rule: nil) }
        var evaluation = Evaluation(flag: name, data: context.object, now: now, isRecorded: true)
        let outcome = outcome(of: rule, &evaluation, type)
        return FlagTrace(outcome: outcome, rule: evaluation.record)
    }

    /// The outcome of a flag that is malformed or disabled.
    private var outcomeWithoutRule: FlagOutcome? {
        if !isEnabled { return FlagOutcome(reason: .disabled, metadata: metadata) }
        return problem.map { .failure($0.code, "flag \"\(name)\": \($0.message)", metadata: metadata) }
    }

    private func outcome(of rule: Rule, _ evaluation: inout Evaluation, _ type: FlagValueType?) -> FlagOutcome {
        do throws(EvaluationError) {
            let result = try evaluation.value(of: rule)
            if result.isNull { return outcome(.isDefault, defaultVariant, type) }
            return outcome(.targetingMatch, try result.text(&evaluation.budget), type)
        } catch {
            return .failure(.general, "flag \"\(name)\": \(error.message)", metadata: metadata)
        }
    }

    /// The value of a variant; nil if there is no such variant, or if its value is null.
    private func value(of variant: String) -> JSONValue? {
        variants.first { $0.name.isSpelled(as: variant) }.flatMap { $0.value.isNull ? nil : $0.value }
    }

    private static func missing(_ variant: String, _ source: String) -> String {
        "\(source) \"\(variant.prefix(100))\", but there is no value for this variant"
    }

    /// The outcome for a variant. Nil selects the default of the caller.
    private func outcome(_ reason: FlagReason, _ variant: String?, _ type: FlagValueType?) -> FlagOutcome {
        guard let variant else { return FlagOutcome(reason: .isDefault, metadata: metadata) }
        guard let value = value(of: variant) else {
            let source = reason == .targetingMatch ? "the rule selects" : "defaultVariant is"
            return .failure(.general, "flag \"\(name)\": \(Self.missing(variant, source))", metadata: metadata)
        }
        if let type, !type.accepts(value) {
            return .failure(
                .typeMismatch,
                "flag \"\(name)\": the value of variant \"\(variant)\" is \(value.kind.article), which cannot be read as"
                    + " type \(type.rawValue)", metadata: metadata)
        }
        return FlagOutcome(value: value, variant: variant, reason: reason, metadata: metadata)
    }
}

extension JSONValue {
    /// A member that is not null.
    func present(_ name: StaticString) -> JSONValue? { member(name).flatMap { $0.isNull ? nil : $0 } }
}

extension FlagProblem {
    /// A malformed value.
    init(_ message: String, _ path: [String]) { self.init(code: .parseError, message: message, path: JSONPath(path)) }
}
