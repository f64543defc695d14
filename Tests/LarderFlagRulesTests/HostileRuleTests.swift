import LarderJSON
import Testing

@testable import LarderFlagRules

@Suite("Hostile rules")
struct HostileRuleTests {
    @Test("a rule may have 64 levels, but no more", arguments: [#"{"!": "#, #"{"!": ["#, "[", #"{"cat": ["a", "#])
    func depth(opening: String) throws {
        let closing = String(opening.filter { "[{".contains($0) }.reversed().map { $0 == "[" ? "]" : "}" })
        // An array cannot be a rule itself.
        let isArray = opening == "["
        func rule(_ levels: Int) -> String {
            let count = isArray ? levels - 1 : levels
            let inner = String(repeating: opening, count: count) + "1" + String(repeating: closing, count: count)
            return isArray ? "{\"!\": [\(inner)]}" : inner
        }
        let most = try flags(targeting: rule(64))
        #expect(most["flag"]?.problem == nil)
        let problem = try #require(try flags(targeting: rule(65))["flag"]?.problem)
        #expect(problem.code == .general)
        #expect(try flags(targeting: rule(65)).outcome().errorCode == .general)
        #expect(try flags(targeting: rule(40_000)).outcome().errorCode == .general)
    }

    @Test("the levels of references count")
    func references() throws {
        func chain(_ count: Int) throws -> FlagSet {
            let evaluators =
                (0..<count).map { "\"e\($0)\": {\"$ref\": \"e\($0 + 1)\"}" } + ["\"e\(count)\": {\"cat\": \"on\"}"]
            return try flags(targeting: #"{"$ref": "e0"}"#, evaluators: "{\(evaluators.joined(separator: ", "))}")
        }
        #expect(try chain(62).outcome().variant == "on")
        #expect(try chain(63).outcome().errorCode == .general)
        #expect(try chain(20_000).outcome().errorCode == .general)
        // Each evaluator refers to the next one twice.
        let doubled = (0..<60).map { "\"e\($0)\": {\"and\": [{\"$ref\": \"e\($0 + 1)\"}, {\"$ref\": \"e\($0 + 1)\"}]}" }
        for (count, code) in [(60, FlagErrorCode.general), (9, nil)] {
            let evaluators = doubled.suffix(count).joined(separator: ", ")
            let set = try flags(
                targeting: "{\"$ref\": \"e\(60 - count)\"}", evaluators: "{\(evaluators), \"e60\": {\"!\": 0}}")
            let trace = set.explain("flag", context: FlagContext(), now: 0)
            #expect(trace.outcome.errorCode == code ?? .general)
            #expect(trace.outcome.errorMessage?.contains(code == nil ? "variant" : "deep") == true)
        }
    }

    @Test(
        "a cycle of references is a parse error",
        arguments: [
            #"{"a": {"$ref": "a"}}"#, #"{"a": {"!": {"$ref": "b"}}, "b": {"$ref": "c"}, "c": {"if": [{"$ref": "a"}]}}"#,
        ])
    func cycles(evaluators: String) throws {
        let outcome = try flags(targeting: #"{"$ref": "a"}"#, evaluators: evaluators).outcome()
        #expect(outcome.errorCode == .parseError)
        #expect(outcome.errorMessage?.contains("refers to itself") == true)
    }

    @Test(
        "an evaluation that takes too many steps is given up",
        arguments: [
            // Each iteration doubles the text, or the depth of the array.
            #"{"reduce": [LIST, {"cat": [{"var": "accumulator"}, {"var": "accumulator"}]}, "abcdefgh"]}"#,
            #"{"reduce": [LIST, {"merge": [{"var": "accumulator"}, {"var": "accumulator"}]}, [1]]}"#,
            #"{"cat": {"reduce": [LIST, [{"var": "accumulator"}, {"var": "accumulator"}], [1]]}}"#,
            #"{"==": [{"reduce": [LIST, [{"var": "accumulator"}, {"var": "accumulator"}], [1]]}, [1]]}"#,
            #"{"reduce": [LIST, {"merge": [[{"var": ""}], [{"var": ""}]]}, [1]]}"#,
            #"{"map": [LIST, {"map": [LIST, {"map": [LIST, 1]}]}]}"#,
            #"{"map": [LIST, {"in": [LIST, "LONG"]}]}"#, #"{"map": [LIST, {"in": ["x", {"cat": ["LONG", "LONG"]}]}]}"#,
            #"{"map": [LIST, {"substr": ["LONG", 5]}]}"#, #"{"map": [LIST, {"sem_ver": ["LONG", "=", "1"]}]}"#,
            #"{"map": [LIST, {"var": [{"cat": "LONG.LONG"}]}]}"#, #"{"fractional": [LONG]}"#,
        ])
    func steps(rule: String) throws {
        let list = "[\((0..<60).map(String.init).joined(separator: ", "))]"
        let long =
            rule.contains("[LONG]")
            ? Array(repeating: "[\"on\", 1]", count: 9_000).joined(separator: ",")
            : String(repeating: "a1.", count: 20_000)
        let text = rule.replacing("LIST", with: list).replacing("LONG", with: long)
        let set = try flags(targeting: text)
        let outcome = try set.outcome(#"{"targetingKey": "k"}"#)
        #expect(outcome.errorCode == .general)
        #expect(set.explain("flag", context: FlagContext(["targetingKey": "k"]), now: 0).outcome.errorCode == .general)
    }

    @Test("a rule may list thousands of users")
    func longList() throws {
        let list = (0..<50_000).map { "\"user-\($0)\"" }.joined(separator: ",")
        let set = try flags(targeting: "{\"if\": [{\"in\": [{\"var\": \"targetingKey\"}, [\(list)]]}, \"on\"]}")
        #expect(try set.outcome(#"{"targetingKey": "user-49999"}"#).variant == "on")
        #expect(try set.outcome(#"{"targetingKey": "user-x"}"#).reason == .isDefault)
    }

    @Test("no number makes an operator trap")
    func numbers() throws {
        let numbers = [
            "0", "-0", "1", "-1", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "1e400",
            "-1e400",
            "1e-400", "0.5", "-1.5", "1e18", "1e19", "4294967296", "\"NaN\"", "\"inf\"", "\"-\"", "\"\"", "\"1e999\"",
            "null",
            "[]", "{}", "true", "[[]]", String(repeating: "9", count: 1_500),
            "\"" + String(repeating: "9", count: 1_500) + "\"",
        ]
        let operators = [
            "+", "-", "*", "/", "%", "min", "max", "<", "<=", ">", ">=", "==", "!=", "===", "!==", "in", "cat",
            "substr",
            "missing", "missing_some", "sem_ver", "fractional", "starts_with", "ends_with", "merge", "var", "if", "and",
            "or",
            "!", "!!", "map", "filter", "all", "some", "none", "reduce",
        ]
        for name in operators {
            for left in numbers {
                for right in numbers {
                    _ = try evaluated("{\"\(name)\": [\(left), \(right)]}", #"{"targetingKey": "k"}"#)
                    if name == "substr" { _ = try evaluated("{\"substr\": [\"aé🙂\", \(left), \(right)]}") }
                    if name == "fractional" {
                        _ = try evaluated("{\"fractional\": [\"k\", [\"a\", \(left)], [\"b\", \(right)]]}")
                    }
                }
            }
        }
    }

    @Test("names of operators are compared as bytes")
    func operatorNames() throws {
        for name in ["IF", "if ", "cat\\u0301", "", "log", "?:", "i\\u0000f"] {
            #expect(try flags(targeting: "{\"\(name)\": [1, \"on\"]}").outcome().errorCode == .parseError, "\(name)")
        }
        #expect(try flags(targeting: #"{"\u0069f": [1, "on"]}"#).outcome().variant == "on")
    }
}
