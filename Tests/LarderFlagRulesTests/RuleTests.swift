import LarderJSON
import Testing

@testable import LarderFlagRules

@Suite("Rules")
struct RuleTests {
    @Test(
        "operators convert their operands like JSONLogic",
        arguments: [
            (#"{"==": [null, 0]}"#, "false"), (#"{"==": [null, false]}"#, "false"),
            (#"{"==": [{"var": "x"}, null]}"#, "true"),
            (#"{"==": ["1", 1]}"#, "true"), (#"{"==": [true, "1"]}"#, "true"), (#"{"==": [[1, 2], "1,2"]}"#, "true"),
            (#"{"==": ["", 0]}"#, "false"), (#"{"==": ["\u00e9", "e\u0301"]}"#, "false"),
            (#"{"===": [1, 1.0]}"#, "true"), (#"{"===": [1, true]}"#, "false"),
            (#"{"===": [[1, "a"], [1.0, "a"]]}"#, "true"),
            (#"{"===": [9007199254740993, 9007199254740992]}"#, "false"),
            (#"{"<": [{"var": "x"}, "2020"]}"#, "true"), (#"{">": [{"var": "x"}, "a"]}"#, "false"),
            (#"{"<": ["10", "9"]}"#, "true"), (#"{"<": ["10", 9]}"#, "false"), (#"{"<": [1, 2, 3]}"#, "true"),
            (#"{"<": ["\uffff", "\ud800\udc00"]}"#, "true"), (#"{">=": [3, 2, null]}"#, "true"),
            (#"{"<": ["x", 1]}"#, "false"), (#"{">": ["x", 1]}"#, "false"), (#"{"==": ["x", {"+": ["x"]}]}"#, "false"),
            (#"{"cat": [1.0, true, null, [1, [2.5]], "é", {}]}"#, #""1truenull1,2.5é[object Object]""#),
            (#"{"in": [1, ["1", true]]}"#, "false"), (#"{"in": ["", "abc"]}"#, "true"),
            (#"{"in": ["bc", "abc"]}"#, "true"),
            (#"{"in": ["bcd", "abc"]}"#, "false"), (#"{"in": ["a", null]}"#, "false"),
            (#"{"%": [-7, 3]}"#, "-1"), (#"{"%": [7, 0]}"#, "null"), (#"{"/": [7, 0]}"#, "null"),
            (#"{"/": [6, 4]}"#, "1.5"),
            (#"{"+": ["0x10", 1]}"#, "null"), (#"{"+": [" 12 ", "1e1"]}"#, "22.0"), (#"{"-": [[]]}"#, "0"),
            (#"{"min": []}"#, "null"), (#"{"max": ["a", 1]}"#, "null"), (#"{"substr": ["a🙂b", 1, 1]}"#, #""🙂""#),
            (#"{"substr": ["abc", "x", -9]}"#, #""""#), (#"{"starts_with": ["é", "e"]}"#, "false"),
            (#"{"starts_with": ["abc", ""]}"#, "true"), (#"{"ends_with": ["abc", "bc"]}"#, "true"),
            (#"{"ends_with": ["c", "bc"]}"#, "false"), (#"{"ends_with": ["", ""]}"#, "true"),
            (
                #"{"reduce": [[1, 2], {"cat": [{"var": "accumulator"}, {"var": "current"}]}, {"cat": ["a"]}]}"#,
                #""a12""#
            ),
            (#"{"map": [{"var": "x"}, 1]}"#, "[]"), (#"{"var": ["a.b", "c"]}"#, #""c""#),
        ])
    func conversions(rule: String, result: String) throws {
        #expect(try evaluated(rule) == result)
    }

    @Test("variables refer to members, elements and lengths by exact names")
    func variables() throws {
        let data = #"{"a": [{"b": 1}, [2, 3]], "": {"": 4}, "x.": 5, "\u00e9": 6, "01": 7, "a\u0301": 8}"#
        for (path, value) in [
            ("a.0.b", "1"), ("a.1.1", "3"), ("a.length", "2"), ("a.01", "null"), ("a.-0", "null"), ("a.+1", "null"),
            (".", "4"), ("x.", "null"), ("e\\u0301", "null"), ("\\u00e9", "6"), ("01", "7"), ("a.0.b.c", "null"),
            ("a.99999999999999999999", "null"), ("a.\\u0301", "null"), ("$flagd.flagKey", #""flag""#),
            ("$flagd.x", "null"),
        ] {
            #expect(try evaluated(#"{"var": "\#(path)"}"#, data) == value, "\(path)")
            #expect(try evaluated(#"{"var": [{"cat": "\#(path)"}]}"#, data) == value, "\(path), computed")
        }
    }

    @Test(
        "versions are compared as in Semantic Versioning",
        arguments: [
            ("1.0.0-alpha", "<", "1.0.0-alpha.1", "true"), ("1.0.0-alpha.1", "<", "1.0.0-alpha.beta", "true"),
            ("1.0.0-beta.2", "<", "1.0.0-beta.11", "true"), ("1.0.0-rc.1", "<", "1.0.0", "true"),
            ("99999999999999999999.0.0", ">", "9.0.0", "true"), ("1.0.0+a-b", "=", "1+c", "true"),
            ("V1", "=", "v1.0", "true"),
            ("01.0.0", "=", "1.0.0", "null"), ("1.0.0-01", "=", "1.0.0", "null"), ("1..0", "=", "1.0.0", "null"),
            ("", "=", "1.0.0", "null"), ("1.0.0-", "=", "1.0.0", "null"), ("1.0.0+", "=", "1.0.0", "null"),
            ("1.0.0", "==", "1.0.0", "null"), ("1.2.0", "~", "1.2.9", "true"), ("1.3.0", "^", "1.2.9", "true"),
            ("vv1", "=", "1.0.0", "null"), ("1.0.0-é", "=", "1.0.0", "null"), ("1.0.0", "!=", "1.0.0-0", "true"),
        ])
    func versions(left: String, comparison: String, right: String, result: String) throws {
        #expect(try evaluated(#"{"sem_ver": ["\#(left)", "\#(comparison)", "\#(right)"]}"#) == result)
    }

    @Test("MurmurHash3 has the published values")
    func hashes() {
        for (text, hash) in [
            ("", 0), ("a", 0x3C25_69B2), ("ab", 0x9BBF_D75F), ("abc", 0xB3DD_93FA), ("abcd", 0x43ED_676A),
            ("Hello, world!", 0xC036_3E43), ("The quick brown fox jumps over the lazy dog", 0x2E4F_F723),
        ] as [(String, UInt32)] {
            #expect(murmurHash3(text) == hash, "\(text)")
        }
    }

    @Test(
        "fractional with malformed buckets has no result",
        arguments: [
            #"{"fractional": []}"#, #"{"fractional": "a"}"#, #"{"fractional": ["k"]}"#, #"{"fractional": ["k", []]}"#,
            #"{"fractional": ["k", ["a", 1, 1]]}"#, #"{"fractional": ["k", ["a", 1.5]]}"#,
            #"{"fractional": ["k", ["a", true]]}"#,
            #"{"fractional": ["k", ["a", "1"]]}"#, #"{"fractional": ["k", ["a", 2147483648]]}"#,
            #"{"fractional": ["k", ["a", 2147483647], ["b", 1]]}"#, #"{"fractional": ["k", ["a", 1e300]]}"#,
            #"{"fractional": ["k", ["a", {"/": [1, 0]}]]}"#, #"{"fractional": ["k", ["a", -5]]}"#,
            #"{"fractional": ["k", ["a", 1], ["b", {"/": [-1, 0]}]]}"#,
            #"{"fractional": ["", ["a", 1]]}"#, #"{"fractional": [["a", 1]]}"#, #"{"fractional": [1, ["a", 1]]}"#,
        ])
    func malformedBuckets(rule: String) throws {
        #expect(try evaluated(rule) == "null")
    }

    @Test("a weight may be computed")
    func computedWeights() throws {
        #expect(try evaluated(#"{"fractional": ["k", ["a", {"/": [100, 2]}], ["b", {"-": [0, 7]}]]}"#) == #""a""#)
        #expect(try evaluated(#"{"fractional": ["k", ["a", 0], ["b", 2147483647]]}"#) == #""b""#)
        #expect(try evaluated(#"{"fractional": [["a"]]}"#, #"{"targetingKey": "k"}"#) == #""a""#)
    }

    /// The 99.9th percentile of the chi-square distribution with three degrees of freedom is 16.27.
    @Test("fractional distributes sequential keys by weight")
    func distribution() throws {
        #if DEBUG
            let count = 200_000
        #else
            let count = 1_000_000
        #endif
        let weights = [("a", 1), ("b", 9), ("c", 30), ("d", 60)]
        let buckets = weights.map { "[\"\($0)\", \($1)]" }.joined(separator: ", ")
        let rule = try JSONValue(parsing: "{\"fractional\": [\(buckets)]}")
        var compiler = RuleCompiler(evaluators: nil)
        let compiled = try compiler.compile(rule, at: [])
        for prefix in ["user-", ""] {
            var counts: [String: Int] = [:]
            for number in 0..<count {
                var evaluation = Evaluation(flag: "flag", data: ["targetingKey": .string("\(prefix)\(number)")], now: 0)
                guard case .string(let bucket) = try evaluation.value(of: compiled) else { continue }
                counts[bucket, default: 0] += 1
            }
            let chiSquare = weights.reduce(0.0) { sum, weight in
                let expected = Double(count * weight.1) / 100
                let difference = Double(counts[weight.0] ?? 0) - expected
                return sum + difference * difference / expected
            }
            #expect(chiSquare < 16.27, "\(prefix): \(counts)")
        }
    }
}
