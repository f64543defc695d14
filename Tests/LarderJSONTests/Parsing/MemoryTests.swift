import Testing

@testable import LarderJSON

@Suite("Memory of the parser")
struct MemoryTests {
    private let small = Array(#"{"id":1,"method":"config.get","params":{"path":"search.limit"}}"#.utf8)

    private func storage(_ value: JSONValue) -> ObjectIdentifier { ObjectIdentifier(value.document) }

    @Test("a parser reuses the memory of its last document if no value of that document is referenced")
    func reuse() throws {
        var parser = JSONParser()
        func parse() throws -> ObjectIdentifier { storage(try small.withUnsafeBytes { try parser.parse($0) }) }
        let first = try parse()
        for _ in 0..<10 { #expect(try parse() == first) }
    }

    @Test("a parser does not reuse the memory of its last document while a value of that document is referenced")
    func referencedValues() throws {
        var parser = JSONParser()
        let retained = try small.withUnsafeBytes { try parser.parse($0)["params"] }
        let next = try small.withUnsafeBytes { try parser.parse($0) }
        #expect(retained.map(storage) != storage(next))
        #expect(retained?["path"]?.string == "search.limit")
    }

    @Test("a parser and its copy parse into separate memory")
    func copies() throws {
        var parser = JSONParser()
        _ = try small.withUnsafeBytes { try parser.parse($0) }
        var copy = parser
        let first = try small.withUnsafeBytes { try parser.parse($0) }
        let second = try small.withUnsafeBytes { try copy.parse($0) }
        #expect(storage(first) != storage(second))
    }

    @Test("a parser releases the memory of a large document when it parses the next document")
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
        #expect(many.detachedMemory > 800_000 && many.detachedMemory < 1_100_000)
        #expect(many[0].map { $0.detachedMemory < 1000 } == true)
        // Each value of a document retains the whole document, so it reports the memory of the whole document.
        #expect(many.elements.first { _ in true }?.documentMemory == many.documentMemory)
    }
}
