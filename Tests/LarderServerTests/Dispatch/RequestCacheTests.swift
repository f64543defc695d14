import Testing

@testable import LarderServer

@Suite("Request cache")
struct RequestCacheTests {
    private func with<Result>(_ line: String, _ body: (RequestTemplate) throws -> Result) throws -> Result {
        try Array(line.utf8).withUnsafeBytes { try body(try #require(RequestTemplate($0))) }
    }

    /// The cached value of a request line, and the bytes that were stored with the value. Nil if the line has no cached
    /// value.
    private func value(of line: String, in cache: RequestCache<Int>) throws -> String? {
        try with(line) { template in
            guard let entry = cache.occupant(of: template), entry.matches(template) else { return nil }
            return "\(entry.value) \(String(decoding: entry.payload, as: UTF8.self))"
        }
    }

    @Test("a cached value is found for request lines that differ only in the id, and for no other line")
    func found() throws {
        var cache = RequestCache<Int>(slots: 64)
        try with(#"{"id":1,"method":"m"}"#) { _ = cache.store(7, payload: [0x61, 0x62], for: $0) }
        #expect(try value(of: #"{"id":"x","method":"m"}"#, in: cache) == "7 ab")
        #expect(try value(of: #"{"id":1,"method":"n"}"#, in: cache) == nil)
        #expect(try value(of: #"{"id":1, "method":"m"}"#, in: cache) == nil)
    }

    @Test("storing a value replaces the value of another line in the same slot, and removed values are not found")
    func replaced() throws {
        var cache = RequestCache<Int>(slots: 1)
        let (first, second) = (#"{"id":1,"method":"m"}"#, #"{"id":1,"method":"n"}"#)
        let none = try with(first) { cache.store(1, for: $0)?.value }
        #expect(none == nil)
        let previous = try with(second) { cache.store(2, for: $0)?.value }
        #expect(previous == 1)
        #expect(try value(of: first, in: cache) == nil)
        #expect(try value(of: second, in: cache) == "2 ")
        cache.removeAll { $0 == 1 }
        #expect(cache.count == 1)
        try with(first) { cache.removeOccupant(of: $0) }
        #expect(cache.count == 0)
    }
}
