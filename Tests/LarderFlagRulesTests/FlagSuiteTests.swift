import Foundation
import LarderFlagRules
import LarderJSON
import Testing

@Suite("flagd's testbed", .enabled(if: FlagSuite.folder != nil, "needs LARDER_SUITES with flagd"))
struct FlagSuiteTests {
    /// The tags of the scenarios that are expected to fail, with the reason.
    static let known = ["@fractional-v1": "the distribution of flagd before version 2, which hashes to a percentage"]

    @Test("all scenarios of the evaluator pass, except those that are known to fail")
    func scenarios() throws {
        let folder = try #require(FlagSuite.folder)
        let file = folder.appending(path: "evaluator/flags/testkit-flags.json")
        let flags = FlagSet(try JSONValue(parsing: Array(Data(contentsOf: file))))
        let scenarios = try FlagSuite.scenarios()
        var run = 0
        for scenario in scenarios where scenario.tags.isDisjoint(with: Self.known.keys) {
            run += 1
            let failure = try Self.failure(scenario, flags)
            #expect(failure == nil, "\(scenario)")
        }
        #expect(run > 110)
        #expect(scenarios.count - run == 15)
    }

    /// Why a scenario fails; nil if it passes.
    private static func failure(_ scenario: FlagSuite.Scenario, _ flags: FlagSet) throws -> String? {
        var context: [(String, JSONValue)] = []
        var (flag, type, fallback) = ("", FlagValueType.object, JSONValue.null)
        var outcome: FlagOutcome?
        for step in scenario.steps {
            if step.text == "an evaluator" { continue }
            if step.text == "the flag was evaluated with details" {
                outcome = flags.evaluate(flag, type: type, context: FlagContext(.object(context)), now: 1_700_000_000)
            } else if let match = step.text.wholeMatch(of: /a (\w+)-flag with key "(.*)" and a fallback value "(.*)"/) {
                flag = String(match.2)
                type = try #require(FlagValueType(rawValue: match.1 == "Float" ? "double" : match.1.lowercased()))
                fallback = try value(String(match.3), match.1)
            } else if let match = step.text.wholeMatch(
                of: /a context containing a key "(.*)", with type "(\w+)" and with value "(.*)"/)
            {
                context.append((String(match.1), try value(String(match.3), match.2)))
            } else if let match = step.text.wholeMatch(of: /a context containing a targeting key with value "(.*)"/) {
                context.append(("targetingKey", .string(String(match.1))))
            } else if let match = step.text.wholeMatch(
                of:
                    /a context containing a nested property with outer key "(.*)" and inner key "(.*)", with value "(.*)"/
            ) {
                context.append((String(match.1), .object([(String(match.2), .string(String(match.3)))])))
            } else if let failure = try unsatisfied(step, try #require(outcome), type, fallback) {
                return failure
            }
        }
        return nil
    }

    /// Why a step that begins with `Then` fails; nil if it passes.
    private static func unsatisfied(
        _ step: FlagSuite.Step, _ outcome: FlagOutcome, _ type: FlagValueType, _ fallback: JSONValue
    ) throws -> String? {
        if let match = step.text.wholeMatch(of: /the resolved details value should be "(.*)"/) {
            let wanted = try value(String(match.1), type == .string ? "String" : "Object")
            let found = outcome.value ?? fallback
            return found == wanted ? nil : "value \(found)"
        } else if let match = step.text.wholeMatch(of: /the reason should be "(.*)"/) {
            return outcome.reason.rawValue == match.1 ? nil : "reason \(outcome.reason)"
        } else if let match = step.text.wholeMatch(of: /the error-code should be "(.*)"/) {
            return outcome.errorCode?.rawValue ?? "" == match.1 ? nil : "error \(outcome)"
        } else if step.text == "the resolved metadata is empty" {
            return outcome.metadata.count == 0 ? nil : "metadata \(outcome.metadata)"
        } else if step.text == "the resolved metadata should contain" {
            for row in step.rows.dropFirst() {
                let wanted = try value(row[2], row[1][...])
                if outcome.metadata[row[0]] != wanted { return "metadata \(outcome.metadata)" }
            }
            return nil
        }
        return "unknown step: \(step.text)"
    }

    private static func value(_ text: String, _ type: Substring) throws -> JSONValue {
        if type == "String" { return .string(text) }
        return try JSONValue(parsing: text.replacingOccurrences(of: "\\\"", with: "\""))
    }
}

@Suite(
    "JSONLogic tables", .enabled(if: FlagSuite.suiteFolder("jsonlogic") != nil, "needs LARDER_SUITES with jsonlogic"))
struct JSONLogicTests {
    @Test("all rows pass, except those for the operator ?:, which flagd does not have")
    func rows() throws {
        let file = try #require(FlagSuite.suiteFolder("jsonlogic")).appending(path: "suites/compatible.json")
        var (run, skipped) = (0, 0)
        for row in try JSONValue(parsing: Array(Data(contentsOf: file))).elements where row.kind == .object {
            let rule = try #require(row["rule"])
            if rule.compactText.contains("\"?:\"") {
                skipped += 1
                #expect(throws: FlagProblem.self, "\(row)") { try evaluated(rule) }
                continue
            }
            run += 1
            let result = try evaluated(rule, data: row["data"] ?? .null)
            #expect(result == row["result"], "\(row)")
        }
        #expect(run > 260)
        #expect(skipped == 4)
    }
}
