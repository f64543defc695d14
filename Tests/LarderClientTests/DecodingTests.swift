import FoundationEssentials
import LarderJSON
import LarderClient
@testable import LarderClientCore
import Testing

@Suite("Decoding of values")
struct DecodingTests {
    private struct Search: Codable, Equatable {
        var limit: Int
        var hosts: [String]
        var weight: Double?
    }

    private func decode<T: Decodable>(_ value: JSONValue, _ type: T.Type) throws -> T {
        try LarderSnapshot(value: value, revision: 1, epoch: "e", state: .fresh).decode(type)
    }

    @Test("plain values, optionals, arrays, dictionaries and structs are decoded")
    func shapes() throws {
        #expect(try decode(25, Int.self) == 25)
        #expect(try decode("x\ny", String.self) == "x\ny")
        #expect(try decode(true, Bool.self))
        #expect(try decode(0.5, Double.self) == 0.5)
        #expect(try decode(25, UInt8.self) == 25)
        #expect(try decode(25, Int?.self) == 25)
        #expect(try decode(.null, Int?.self) == nil)
        #expect(try decode(["a": 1], [String: Int].self) == ["a": 1])
        #expect(
            try decode(["limit": 3, "hosts": ["ä", "b"], "more": 1], Search.self)
                == Search(limit: 3, hosts: ["ä", "b"], weight: nil))
    }

    @Test("a snapshot without a value is nil if the type is an `Optional`")
    func missing() throws {
        let snapshot = LarderSnapshot(value: nil, revision: 1, epoch: "e", state: .fresh)
        #expect(try snapshot.decode(Int?.self) == nil)
        #expect(try snapshot.decode(Search?.self) == nil)
        #expect(try snapshot.decode(Int?.self, default: 5) == 5)
        let error = #expect(throws: LarderClientError.self) { try snapshot.decode(Int.self) }
        #expect(error?.code == .decodingFailed && error?.advice?.contains("Int?") == true)
    }

    @Test("a value inside a larger document is decoded from its own text")
    func nested() throws {
        let document = try JSONValue(parsing: #" { "a" : { "limit" : 1 , "hosts" : [ "x" ] } , "b" : 2 } "#)
        let value = try #require(document["a"])
        #expect(try decode(value, Search.self) == Search(limit: 1, hosts: ["x"]))
    }

    @Test("the error for a mismatch names the position and the reason")
    func mismatch() throws {
        let failure = #expect(throws: LarderClientError.self) {
            try decode(["limit": 1, "hosts": [1]], Search.self)
        }
        #expect(failure?.code == .decodingFailed)
        #expect(failure?.reason.contains("\"hosts.0\" is a number, not String") == true)
        let missing = #expect(throws: LarderClientError.self) { try decode(["hosts": []], Search.self) }
        #expect(missing?.reason.contains("\"limit\" is missing") == true)
        #expect(throws: LarderClientError.self) { try decode("25", Int.self) }
        #expect(throws: LarderClientError.self) { try decode(300, UInt8.self) }
    }

    private enum Shape: Codable, Equatable {
        case circle(radius: Int, color: String)
        case square(side: Int)
    }

    private enum Mode: String, Codable { case slow, fast }

    private struct Window: Codable, Equatable {
        var opens = Date(timeIntervalSince1970: 0)
        var days: Int8? = 5
    }

    private struct Settings: Codable, Equatable {
        var limit = 10
        var hosts: [String] = ["a"]
        var weight: Double? = 0.5
        var ratio = Double.infinity
        var window = Window()
        var optional: Window? = Window()
        var labels = ["k": 1]
        var shape = Shape.circle(radius: 1, color: "red")
        var mode = Mode.slow
        var windows = [Window(days: 1)]
    }

    private func settings(_ value: JSONValue?, decoder: JSONDecoder = JSONDecoder()) throws -> Settings {
        try LarderSnapshot(value: value, revision: 1, epoch: "e", state: .fresh)
            .decode(default: Settings(), decoder: decoder)
    }

    @Test("members that a value lacks have the value of the default, in nested objects, too")
    func membersOfDefault() throws {
        #expect(try settings(nil) == Settings())
        #expect(try settings([:]) == Settings())
        var expected = Settings()
        expected.limit = 3
        #expect(try settings(["limit": 3]) == expected)
        expected = Settings()
        expected.window.days = 7
        expected.optional?.days = 6
        #expect(try settings(["window": ["days": 7], "optional": ["days": 6]]) == expected)
    }

    @Test("a member that the value has is not replaced by the default, also if it is null or has the wrong type")
    func presentMembers() throws {
        let settings = try settings(["weight": .null, "optional": .null, "window": ["days": .null], "hosts": []])
        #expect(settings.weight == nil && settings.optional == nil && settings.window.days == nil)
        #expect(settings.hosts == [] && settings.limit == 10)
        let failure = #expect(throws: LarderClientError.self) { try self.settings(["window": 3]) }
        #expect(failure?.reason.contains("window") == true, "\(failure as Any)")
        #expect(throws: LarderClientError.self) { try self.settings(["limit": .null]) }
    }

    @Test("arrays, dictionaries and cases of enumerations are not mixed with those of the default")
    func wholeValues() throws {
        let settings = try settings([
            "hosts": ["b"], "labels": ["z": 2], "shape": ["square": ["side": 4]], "mode": "fast",
        ])
        #expect(settings.hosts == ["b"] && settings.labels == ["z": 2] && settings.mode == .fast)
        #expect(settings.shape == .square(side: 4))
        #expect(try self.settings(["shape": ["circle": ["radius": 2]]]).shape == .circle(radius: 2, color: "red"))
        let noSide = #expect(throws: LarderClientError.self) { try self.settings(["shape": ["square": [:]]]) }
        #expect(noSide?.reason.contains("side\" is missing") == true)
        let element = #expect(throws: LarderClientError.self) { try self.settings(["windows": [["days": 2]]]) }
        #expect(element?.reason.contains("\"windows.0.opens\" is missing") == true)
        let value = try JSONValue(parsing: #"{"b": 1}"#)
        #expect(try decode(value, [String: Int].self, default: ["a": 2]) == ["b": 1])
        #expect(try decode(value, JSONValue.self, default: ["a": 2]) == ["b": 1])
    }

    private func decode<T: Decodable>(_ value: JSONValue, _ type: T.Type, default defaultValue: T?) throws -> T {
        try LarderSnapshot(value: value, revision: 1, epoch: "e", state: .fresh).decode(default: defaultValue)
    }

    @Test("the strategies of a decoder apply to the members of the value, and not to those of the default")
    func strategies() throws {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        let settings = try settings(
            ["window": ["opens": "1970-01-01T00:01:00Z"], "labels": ["a_b": 9]], decoder: decoder)
        #expect(settings.window == Window(opens: Date(timeIntervalSince1970: 60)))
        #expect(settings.labels == ["a_b": 9] && settings.optional == Window())
    }

    private class Base: Codable {
        var limit = 1
        init() {}
    }

    private final class Derived: Base {
        var hosts = ["a"]

        private enum Key: CodingKey { case hosts }

        override init() { super.init() }

        required init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Key.self)
            hosts = try container.decode([String].self, forKey: .hosts)
            try super.init(from: container.superDecoder())
        }

        override func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: Key.self)
            try container.encode(hosts, forKey: .hosts)
            try super.encode(to: container.superEncoder())
        }
    }

    @Test("the members of a base class have the value of the default, too")
    func baseClass() throws {
        let first = try decode(["hosts": ["b"]], Derived.self, default: Derived())
        #expect(first.hosts == ["b"] && first.limit == 1)
        let second = try decode(["super": ["limit": 2]], Derived.self, default: Derived())
        #expect(second.hosts == ["a"] && second.limit == 2)
    }

    @Test("a type that cannot be encoded has no members of the default")
    func notEncodable() throws {
        struct Plain: Decodable, Equatable {
            var limit = 1
            var weight: Double?
        }
        let value = try decode(["limit": 2], Plain.self, default: Plain(limit: 1, weight: 3))
        #expect(value == Plain(limit: 2, weight: nil))
        #expect(throws: LarderClientError.self) { try decode(["weight": 2], Plain.self, default: Plain()) }
    }

    @Test(
        "the error for a number that does not fit names the position and the type, and not the number",
        arguments: [
            (#"{"limit": 18446744073709551615}"#, "\"limit\" is a number that does not fit into Int"),
            (#"{"limit": 1.5}"#, "\"limit\" is a number that does not fit into Int"),
            (#"{"window": {"opens": 0, "days": 300}}"#, "\"window.days\" is a number that does not fit into Int8"),
        ])
    func number(text: String, reason: String) throws {
        let value = try JSONValue(parsing: text)
        let failure = #expect(throws: LarderClientError.self) { try settings(value) }
        #expect(failure?.reason.hasSuffix("as Settings: \(reason)") == true)
        #expect(failure?.code == .decodingFailed)
    }

    @Test("the error for `UInt64.max` read as `Int` names the type, without a default, too")
    func largeInteger() throws {
        let value = try JSONValue(parsing: "18446744073709551615")
        #expect(try decode(value, UInt64.self) == .max)
        let failure = #expect(throws: LarderClientError.self) { try decode(value, Int.self) }
        #expect(failure?.reason.hasSuffix("as Int: it is a number that does not fit into Int") == true)
        let document = try JSONValue(parsing: #"{"limit": 18446744073709551615, "hosts": []}"#)
        let nested = #expect(throws: LarderClientError.self) { try decode(document, Search.self) }
        #expect(nested?.reason.hasSuffix("as Search: \"limit\" is a number that does not fit into Int") == true)
    }

    @Test("the error for an unknown case of an enumeration does not show the value")
    func unknownCase() {
        let failure = #expect(throws: LarderClientError.self) { try decode("secret", Mode.self) }
        #expect(failure?.reason.hasSuffix("as Mode: Cannot initialize Mode from invalid String value") == true)
    }
}
