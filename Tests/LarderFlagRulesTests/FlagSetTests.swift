import Foundation
import LarderJSON
import LarderSchema
import TestSupport
import Testing

@testable import LarderFlagRules

@Suite("Flags")
struct FlagSetTests {
    private static func set(_ text: String) throws -> FlagSet { FlagSet(try JSONValue(parsing: text)) }

    /// A set with one flag, whose members are a JSON text without the braces.
    private static func flag(_ members: String) throws -> Flag {
        try #require(try set(#"{"flags": {"flag": {\#(members)}}}"#)["flag"])
    }

    /// The schema that the package installs. It does not describe rules.
    private static func schema() throws -> JSONSchema {
        let file = Checkout.root.appending(path: "Protocol/schemas/flags.json")
        return try JSONSchema(JSONValue(parsing: String(contentsOf: file, encoding: .utf8)))
    }

    @Test("a flag without a rule has the value of its default variant")
    func staticFlag() throws {
        let flags = try Self.set(
            #"{"flags": {"size": {"state": "ENABLED", "variants": {"s": 1.0, "l": 2e0}, "defaultVariant": "l"}}}"#)
        let outcome = flags.evaluate("size", type: .double, context: FlagContext(), now: 0)
        #expect(outcome.value?.compactText == "2e0")
        #expect(outcome.variant == "l")
        #expect(outcome.reason == .isStatic)
        #expect(flags.explain("size", context: FlagContext(), now: 0).rule == nil)
        #expect(flags["size"]?.hasTargeting == false)
    }

    @Test(
        "a malformed flag is a parse error at a path",
        arguments: [
            ("[]", "/flags/flag"),
            (#"{"variants": {"on": 1}}"#, "/flags/flag/state"),
            (#"{"state": "enabled", "variants": {"on": 1}}"#, "/flags/flag/state"),
            (#"{"state": "ENABLED"}"#, "/flags/flag/variants"),
            (#"{"state": "ENABLED", "variants": {}}"#, "/flags/flag/variants"),
            (#"{"state": "ENABLED", "variants": {"on": 1}, "defaultVariant": 1}"#, "/flags/flag/defaultVariant"),
            (#"{"state": "ENABLED", "variants": {"on": 1}, "metadata": {"a": []}}"#, "/flags/flag/metadata/a"),
            (#"{"state": "ENABLED", "variants": {"on": 1}, "metadata": {"": 1}}"#, "/flags/flag/metadata"),
            (#"{"state": "ENABLED", "variants": {"on": 1}, "targeting": "on"}"#, "/flags/flag/targeting"),
            (
                #"{"state": "ENABLED", "variants": {"on": 1}, "targeting": {"if": [1, {"==": [1], "<": [1]}]}}"#,
                "/flags/flag/targeting/if/1"
            ),
            (
                #"{"state": "ENABLED", "variants": {"on": 1}, "targeting": {"if": [{"?:": [1]}]}}"#,
                "/flags/flag/targeting/if/0/?:"
            ),
            (
                #"{"state": "ENABLED", "variants": {"on": 1}, "targeting": {"$ref": "b"}}"#,
                "/$evaluators/b/$ref"
            ),
            (#"{"state": "ENABLED", "variants": {"on": 1}, "targeting": {"$ref": 1}}"#, "/flags/flag/targeting/$ref"),
        ])
    func malformed(flag: String, path: String) throws {
        let document = try JSONValue(
            parsing: #"""
                {"flags": {"flag": \#(flag), "good": {"state": "ENABLED", "variants": {"on": true}, "defaultVariant": "on"}},
                "$evaluators": {"b": {"$ref": "none"}}}
                """#)
        let flags = FlagSet(document)
        let isRule = path.hasPrefix("/flags/flag/targeting/") || path.hasPrefix("/$evaluators/")
        #expect(try Self.schema().isValid(document) == isRule)
        #expect(try flags.outcome().errorCode == .parseError)
        #expect(flags["flag"]?.problem?.path.pointer == path)
        #expect(flags.evaluate("good", context: FlagContext(), now: 0).reason == .isStatic)
    }

    @Test("the message about several operators names them and the remedy")
    func severalOperators() throws {
        let outcome = try flags(targeting: #"{"==": [1, 1], "<": [1, 2]}"#).outcome()
        #expect(outcome.errorMessage?.contains(#"2: "==", "<"; layers"#) == true)
    }

    @Test("a disabled flag is disabled even if its rule is malformed")
    func disabled() throws {
        let flag = try Self.flag(#""state": "DISABLED", "variants": {"on": 1}, "targeting": {"a": 1, "b": 2}"#)
        #expect(flag.evaluate(context: FlagContext(), now: 0).reason == .disabled)
        #expect(flag.problem != nil)
        #expect(flag.hasTargeting)
    }

    @Test(
        "a default variant without a value is a problem for the list, and an error only if it is selected",
        arguments: [#"{"a": 1}"#, #"{"a": 1, "b": null}"#])
    func defaultWithoutValue(variants: String) throws {
        let targeting = #""targeting": {"if": [{"==": [{"var": "x"}, 1]}, "a"]}"#
        let flag = try Self.flag(
            #""state": "ENABLED", "variants": \#(variants), "defaultVariant": "b", \#(targeting)"#)
        #expect(flag.problem == nil)
        #expect(flag.listedProblem?.path.pointer == "/flags/flag/defaultVariant")
        #expect(flag.listedProblem?.message == #"defaultVariant is "b", but there is no value for this variant"#)
        #expect(flag.evaluate(context: FlagContext(), now: 0).errorCode == .general)
        #expect(flag.evaluate(context: FlagContext(["x": 1]), now: 0).variant == "a")
    }

    @Test("a set that is not an object has a problem and no flags", arguments: ["[]", "1", #"{"flags": []}"#, "null"])
    func malformedSet(text: String) throws {
        let flags = try Self.set(text)
        #expect(flags.problem != nil)
        #expect(flags.names.isEmpty)
        #expect(flags.evaluate("a", context: FlagContext(), now: 0).errorCode == .flagNotFound)
    }

    @Test("a flag whose set has malformed metadata can be evaluated")
    func malformedMetadata() throws {
        let flags = try Self.set(
            #"{"flags": {"a": {"state": "ENABLED", "variants": {"on": 1}, "defaultVariant": "on"}}, "metadata": {"x": null}}"#
        )
        #expect(flags.problem?.path.pointer == "/metadata/x")
        #expect(flags.evaluate("a", context: FlagContext(), now: 0).variant == "on")
    }

    @Test("the metadata of a flag replace those of the set")
    func metadata() throws {
        let flags = try Self.set(
            #"""
            {"flags": {"a": {"state": "ENABLED", "variants": {"on": 1}, "metadata": {"version": 1.50}}},
            "metadata": {"version": 1, "set": "x"}}
            """#)
        let found = flags.evaluate("a", context: FlagContext(), now: 0).metadata
        #expect(found == (try JSONValue(parsing: #"{"version": 1.50, "set": "x"}"#)))
    }

    @Test("names are sorted and found by their bytes")
    func names() throws {
        let on = #"{"state": "ENABLED", "variants": {"on": 1}, "defaultVariant": "on"}"#
        let flags = try Self.set(#"{"flags": {"\u00e9": \#(on), "b": \#(on), "e\u0301": \#(on), "B": \#(on)}}"#)
        #expect(flags.names.map { Array($0.utf8) } == ["B", "b", "e\u{301}", "\u{e9}"].map { Array($0.utf8) })
        #expect(flags["e\u{301}"].map { Array($0.name.utf8) } == Array("e\u{301}".utf8))
        #expect(flags["E\u{301}"] == nil)
    }

    @Test(
        "a value of another type is a type mismatch",
        arguments: [
            ("true", [FlagValueType.boolean]), (#""x""#, [.string]), ("1", [.integer, .double]), ("1.0", [.double]),
            ("1e400", []), ("9223372036854775808", [.double]), ("{}", [.object]), ("[1]", [.object]),
        ])
    func types(value: String, types: [FlagValueType]) throws {
        let flag = try Self.flag(#""state": "ENABLED", "variants": {"on": \#(value)}, "defaultVariant": "on""#)
        for type in FlagValueType.allCases {
            let outcome = flag.evaluate(type: type, context: FlagContext(), now: 0)
            #expect(outcome.errorCode == (types.contains(type) ? nil : .typeMismatch), "\(type)")
            #expect(outcome.value?.compactText == (types.contains(type) ? value : nil))
        }
        #expect(flag.evaluate(context: FlagContext(), now: 0).value?.compactText == value)
    }

    @Test("a rule that selects no variant selects the default; an unknown variant is an error")
    func variants() throws {
        let rule = #"{"var": "wanted"}"#
        #expect(try flags(targeting: rule).outcome().reason == .isDefault)
        #expect(try flags(targeting: rule).outcome(#"{"wanted": "on"}"#).reason == .targetingMatch)
        #expect(try flags(targeting: rule).outcome(#"{"wanted": "off", "": 1}"#).value?.bool == false)
        for wanted in [#""x""#, #""""#, "1", "[]", "true"] {
            #expect(try flags(targeting: rule).outcome(#"{"wanted": \#(wanted)}"#).errorCode == .general)
        }
    }

    @Test("a context that is not an object is empty")
    func contexts() {
        #expect(FlagContext([1, 2]).object == .emptyObject)
        #expect(FlagContext(["targetingKey": "a"]).targetingKey == "a")
        #expect(FlagContext(["targetingKey": 1]).targetingKey == nil)
    }

    @Test("flags whose rules may refer to the time use the time")
    func time() throws {
        for (rule, usesTime) in [
            (#"{"var": "$flagd.timestamp"}"#, true), (#"{"var": "$flagd"}"#, true), (#"{"var": [{"var": "x"}]}"#, true),
            (#"{"$ref": "late"}"#, true), (#"{"missing": ["$flagd.timestamp"]}"#, true),
            (#"{"var": "$flagd.flagKey"}"#, false), (#"{"==": [{"var": "timestamp"}, 1]}"#, false),
        ] {
            let set = try flags(targeting: rule, evaluators: #"{"late": {">": [{"var": "$flagd.timestamp"}, 5]}}"#)
            #expect(set["flag"]?.usesTime == usesTime, "\(rule)")
        }
        let set = try flags(targeting: #"{"if": [{"<": [{"var": "$flagd.timestamp"}, 100]}, "on", "off"]}"#)
        #expect(set.evaluate("flag", context: FlagContext(), now: 99).variant == "on")
        #expect(set.evaluate("flag", context: FlagContext(), now: 100).variant == "off")
        #expect(set.evaluate("flag", context: FlagContext(["$flagd": ["timestamp": 1]]), now: 100).variant == "off")
    }

    @Test("an explanation has the value of each part that was evaluated")
    func explanation() throws {
        let set = try flags(
            targeting: #"{"if": [{"$ref": "swiss"}, "on", {"<": [{"var": "age"}, 5]}, {"cat": ["o", "ff"]}]}"#,
            evaluators: #"{"swiss": {"==": [{"var": "country"}, "CH"]}}"#)
        let trace = set.explain("flag", context: FlagContext(["country": "CH"]), now: 0)
        #expect(trace.outcome.variant == "on")
        let rule = try #require(trace.rule)
        #expect(rule.kind == .call("if"))
        #expect(rule.value == "on")
        #expect(rule.operands.map(\.isEvaluated) == [true, true, false, false])
        #expect(rule.operands[0].kind == .reference("swiss"))
        #expect(rule.operands[0].value == true)
        let comparison = rule.operands[0].operands[0]
        #expect(comparison.operands[0].kind == .call("var"))
        #expect(comparison.operands[0].value == "CH")
        #expect(comparison.operands[0].operands[0].value == "country")
        #expect(rule.operands[2].operands.isEmpty)
    }
}
