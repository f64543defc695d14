import LarderSchema
import Testing

@testable import LarderSchema

@Suite("Numbers")
struct NumberTests {
    private func number(_ text: String) -> DecimalNumber {
        var text = text
        return text.withUTF8 { DecimalNumber($0) }
    }

    @Test(
        "numbers are compared by their exact value",
        arguments: [
            ("1", "1.0", "="), ("-0", "0.00e5", "="), ("1e2", "100", "="), ("0.1", "0.10000000000000000001", "<"),
            ("9007199254740993", "9007199254740992", ">"), ("1e400", "1e401", "<"), ("-1e400", "1e-400", "<"),
            ("123456789012345678901234567890", "123456789012345678901234567891", "<"), ("-2", "-1", "<"),
            ("0.30", "3e-1", "="), ("12345678901234567890", "1234567890123456789e1", "="), ("0", "1e-9999999999", "<"),
            ("1E9999999999999999999999", "1e5", ">"), ("99999999999999999999", "1e20", "<"),
        ])
    func order(left: String, right: String, sign: String) {
        let (one, other) = (number(left), number(right))
        #expect((one < other) == (sign == "<"))
        #expect((other < one) == (sign == ">"))
        #expect((one == other) == (sign == "="))
    }

    @Test(
        "multipleOf is exact for decimal fractions and large numbers",
        arguments: [
            ("0.3", "0.1", true), ("0.35", "0.1", false), ("1e308", "0.123456789", false), ("1e308", "0.5", true),
            ("4.35", "0.01", true), ("0", "7", true), ("-9", "3", true), ("9007199254740993", "2", false),
            ("123456789012345678901234567890", "10", true), ("123456789012345678901234567891", "10", false),
            ("1e1000000", "3", false), ("3e1000000", "3", true), ("1", "1e-5", true), ("1e-6", "1e-5", false),
            ("18446744073709551614", "9999999999999999999", false),
            ("99999999999999999990", "9999999999999999999", true),
        ])
    func multiples(value: String, divisor: String, isMultiple: Bool) throws {
        #expect(number(value).isMultiple(of: number(divisor)) == isMultiple)
        #expect(try accepts(#"{"multipleOf": \#(divisor)}"#, value) == isMultiple)
    }

    @Test(
        "numeric limits, type, enum and const apply to integers, fractions and very large numbers",
        arguments: [
            (#"{"minimum": 1.5}"#, ["2", "1.5", "1e9"], ["1", "1.4999999999999999999999"]),
            (#"{"exclusiveMinimum": 1}"#, ["2", "1.0000000000000000000001"], ["1", "1.0", "0"]),
            (#"{"maximum": -1.5}"#, ["-2", "-1.5", "-1e400"], ["-1", "1e400"]),
            (#"{"exclusiveMaximum": -1}"#, ["-2", "-1.1"], ["-1", "-1.0", "0"]),
            (#"{"minimum": 1e400}"#, ["1e400", "2e400"], ["999999999999999999", "1e399"]),
            (#"{"maximum": 9223372036854775807}"#, ["9223372036854775807"], ["9223372036854775808"]),
            (#"{"type": "integer"}"#, ["1", "1.0", "1e3", "12345678901234567890"], ["1.5", "1e-1", "\"1\""]),
            (#"{"enum": [1, 2.50]}"#, ["1.0", "2.5", "25e-1"], ["2", "true"]),
            (#"{"const": {"a": [1]}}"#, [#"{"a": [1.0]}"#], [#"{"a": [2]}"#, #"{"a": [1], "b": 1}"#]),
        ])
    func limits(schema: String, valid: [String], invalid: [String]) throws {
        for value in valid { #expect(try accepts(schema, value), "\(value)") }
        for value in invalid { #expect(try !accepts(schema, value), "\(value)") }
    }

    @Test("uniqueItems finds equal elements of every kind")
    func unique() throws {
        let schema = #"{"uniqueItems": true}"#
        let base = (0..<20).map { "\($0)" }
        for (extra, isUnique) in [
            ("20", true), ("7.0", false), ("\"7\"", true), ("null", true), ("true", true), ("[7]", true),
        ] {
            #expect(try accepts(schema, "[\((base + [extra]).joined(separator: ","))]") == isUnique, "\(extra)")
        }
        let object = #"{"a": [1, {"b": "\u0041"}], "c": null}"#
        let equal = #"{"c": null, "a": [1.0, {"b": "A"}]}"#
        #expect(try !accepts(schema, "[\((base + [object, equal]).joined(separator: ","))]"))
        #expect(try accepts(schema, "[\((base + [object, #"{"c": null}"#]).joined(separator: ","))]"))
    }
}
