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
        return messages
    }

    @Test("the framer returns the same messages, regardless of how the bytes are split", arguments: 0..<100)
    func everySplit(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let strings = ["}", "{", "\\\"", "\\n", "é\u{1F600}", ""]
        let texts: [[UInt8]] = (0..<Int.random(in: 1...8, using: &generator)).map { _ in
            Array("{\"a\":\"\(strings.randomElement(using: &generator) ?? "")\"}".utf8)
        }
        var bytes: [UInt8] = []
        for text in texts { bytes += text + [0x0a] }
        #expect(try messages([bytes]) == texts)
        #expect(try messages(bytes.map { [$0] }) == texts)
        var pieces: [[UInt8]] = []
        while !bytes.isEmpty {
            let count = Int.random(in: 1...bytes.count, using: &generator)
            pieces.append(Array(bytes[..<count]))
            bytes.removeFirst(count)
        }
        #expect(try messages(pieces) == texts)
    }

    @Test("a message is complete at its line feed")
    func lineFeed() throws {
        var framer = EtcdFramer(maximumBytes: 100)
        framer.append(Array("{\"a\":1}".utf8))
        #expect(try framer.next() == nil)
        framer.append(Array("\n{".utf8))
        #expect(try framer.next() == Array("{\"a\":1}".utf8))
        #expect(try framer.next() == nil)
    }

    @Test("messages over the size limit are refused, complete or not")
    func refused() {
        for end in ["", "\n"] {
            #expect(throws: EtcdFramer.TooLarge.self) {
                try messages(
                    [Array("{\"a\":\"".utf8), [UInt8](repeating: 0x61, count: 100) + Array(end.utf8)], maximumBytes: 50)
            }
        }
    }
}
