import Testing

@testable import LarderJSON

@Suite("Memory of the parser")
struct MemoryTests {
    private let small = Array(#"{"id":1,"method":"config.get","params":{"path":"search.limit"}}"#.utf8)

    private func storage(_ value: JSONValue) -> ObjectIdentifier { ObjectIdentifier(value.document) }

    @Test("the memory of a document is reused when none of its values is referenced")
    func reuse() throws {
        var parser = JSONParser()
        func parse() throws -> ObjectIdentifier { storage(try small.withUnsafeBytes { try parser.parse($0) }) }
        let first = try parse()
        for _ in 0..<10 { #expect(try parse() == first) }
    }

    @Test("the memory of a document is not reused while one of its values is referenced")
    func referencedValues() throws {
        var parser = JSONParser()
        let retained = try small.withUnsafeBytes { try parser.parse($0)["params"] }
        let next = try small.withUnsafeBytes { try parser.parse($0) }
        #expect(retained.map(storage) != storage(next))
        #expect(retained?["path"]?.string == "search.limit")
    }

    @Test("a copy of a parser does not share its memory")
    func copies() throws {
        var parser = JSONParser()
        _ = try small.withUnsafeBytes { try parser.parse($0) }
        var copy = parser
        let first = try small.withUnsafeBytes { try parser.parse($0) }
        let second = try small.withUnsafeBytes { try copy.parse($0) }
        #expect(storage(first) != storage(second))
    }

    @Test("the memory of a large document is released when the next one is parsed")
    func largeDocuments() throws {
        var parser = JSONParser()
        let large = Array("[\(String(repeating: "0,", count: 1_000_000))0]".utf8)
        _ = try large.withUnsafeBytes { try parser.parse($0) }
        let value = try small.withUnsafeBytes { try parser.parse($0) }
        #expect(value.document.storage.pointee.textCapacity < 10_000)
        #expect(value.document.storage.pointee.nodeCapacity < 10_000)
    }

    @Test("a document that is parsed without a reusable parser has no excess capacity")
    func trimmed() throws {
        let bytes = Array("[\(String(repeating: "123456789012345678901234567890,", count: 10_000))0]".utf8)
        let value = try JSONValue(parsing: bytes)
        #expect(value.document.storage.pointee.nodeCapacity < 12_000)
        #expect(value.document.storage.pointee.frames == nil)
    }

    @Test("documentMemory counts the text and the tape of the whole document")
    func documentMemory() throws {
        let long = try JSONValue(parsing: #"["\#(String(repeating: "x", count: 100_000))"]"#)
        #expect(long.documentMemory >= 100_000 && long.documentMemory < 120_000)
        let many = try JSONValue(parsing: "[" + Array(repeating: "1", count: 50_000).joined(separator: ",") + "]")
        #expect(many.documentMemory > 200_000)
        // A part retains the whole document.
        #expect(many.elements.first { _ in true }?.documentMemory == many.documentMemory)
    }
}
