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
        #expect(failure?.reason.contains("at hosts.0: ") == true)
        let missing = #expect(throws: LarderClientError.self) { try decode(["hosts": []], Search.self) }
        #expect(missing?.reason.contains("\"limit\" is missing") == true)
        #expect(throws: LarderClientError.self) { try decode("25", Int.self) }
        #expect(throws: LarderClientError.self) { try decode(300, UInt8.self) }
    }
}
