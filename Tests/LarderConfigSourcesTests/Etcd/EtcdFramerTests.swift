import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("Etcd message framing")
struct EtcdFramerTests {
    private func messages(_ pieces: [[UInt8]], maximumBytes: Int = 1 << 20) throws -> [[UInt8]] {
        var framer = EtcdFramer(maximumBytes: maximumBytes)
        var messages: [[UInt8]] = []
        for piece in pieces {
            framer.append(piece)
            while let message = try framer.next() { messages.append(message) }
        }
        #expect(!framer.isInMessage)
        return messages
    }

    @Test("the framer returns the same messages, regardless of how the bytes are split", arguments: 0..<100)
    func everySplit(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let texts = (0..<Int.random(in: 1...8, using: &generator)).map { _ in
            Array(Self.object(3, using: &generator).utf8)
        }
        let separators = ["\n", "", " ", "\r\n", "\n\n\t"]
        var bytes: [UInt8] = []
        for text in texts { bytes += text + Array((separators.randomElement(using: &generator) ?? "").utf8) }
        #expect(try messages([bytes + [0x0a]]) == texts)
        #expect(try messages(bytes.map { [$0] } + [[0x0a]]) == texts)
        var pieces: [[UInt8]] = []
        while !bytes.isEmpty {
            let count = Int.random(in: 1...bytes.count, using: &generator)
            pieces.append(Array(bytes[..<count]))
            bytes.removeFirst(count)
        }
        #expect(try messages(pieces + [[0x0a]]) == texts)
    }

    /// Returns a random object. Its strings contain brackets and escaped quotes, and its arrays contain line breaks.
    private static func object(_ depth: Int, using generator: inout SeededGenerator) -> String {
        let strings = ["\"}\"", "\"{\"", "\"\\\"\"", "\"\\\\\"", "\"]\\n[\"", "\"é\u{1F600}\"", "\"\""]
        let members = (0..<Int.random(in: 0...3, using: &generator)).map { index in
            let value: String
            switch Int.random(in: 0..<4, using: &generator) {
            case 0 where depth > 0: value = object(depth - 1, using: &generator)
            case 1 where depth > 0: value = "[\n\(object(depth - 1, using: &generator)), 1]"
            case 2: value = "-1.5e3"
            default: value = strings.randomElement(using: &generator) ?? "0"
            }
            return "\"\(index)\" : \(value)"
        }
        return "{\(members.joined(separator: ","))}"
    }

    @Test("a message is complete at its closing brace, without a line break")
    func noLineFeed() throws {
        var framer = EtcdFramer(maximumBytes: 100)
        framer.append(Array("{\"a\":1".utf8))
        #expect(try framer.next() == nil)
        #expect(framer.isInMessage)
        framer.append(Array("}".utf8))
        #expect(try framer.next() == Array("{\"a\":1}".utf8))
        #expect(!framer.isInMessage)
    }

    @Test("bytes that are not JSON objects are refused, and so are messages over the size limit")
    func refused() {
        for text in ["Not Found", "[1]", "{} x", "}"] {
            #expect(throws: EtcdFramer.Failure.notObjects) { try messages([Array(text.utf8)]) }
        }
        #expect(throws: EtcdFramer.Failure.tooLarge) {
            try messages([Array("{\"a\":\"".utf8), [UInt8](repeating: 0x61, count: 100)], maximumBytes: 50)
        }
    }
}
