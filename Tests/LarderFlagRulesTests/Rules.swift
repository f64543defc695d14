import LarderJSON

@testable import LarderFlagRules

/// Compiles and evaluates a rule by itself.
func evaluated(_ rule: JSONValue, data: JSONValue = .emptyObject, now: Int64 = 1_700_000_000) throws -> JSONValue {
    var compiler = RuleCompiler(evaluators: nil)
    var evaluation = Evaluation(flag: "flag", data: data, now: now)
    let result = try evaluation.value(of: compiler.compile(rule, at: []))
    return try result.json(&evaluation.budget)
}

/// Compiles and evaluates a rule by itself. The arguments are JSON texts.
func evaluated(_ rule: String, _ data: String = "{}") throws -> String {
    try evaluated(JSONValue(parsing: rule), data: JSONValue(parsing: data)).compactText
}

/// A set with the flag `flag`, which has the variants `on` and `off` and, by default, the value of `off`.
func flags(targeting: String, evaluators: String = "{}") throws -> FlagSet {
    FlagSet(
        try JSONValue(
            parsing: """
                {
                  "flags": {
                    "flag": {
                      "state": "ENABLED", "variants": {"on": true, "off": false}, "defaultVariant": "off",
                      "targeting": \(targeting)
                    }
                  },
                  "$evaluators": \(evaluators)
                }
                """, maximumDepth: 100_000))
}

extension FlagSet {
    /// Evaluates the flag `flag`.
    func outcome(_ context: String = "{}", type: FlagValueType? = nil) throws -> FlagOutcome {
        evaluate("flag", type: type, context: FlagContext(try JSONValue(parsing: context)), now: 1_700_000_000)
    }
}
