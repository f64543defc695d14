import LarderJSON
import Testing

@Suite("Validation of UTF-8")
struct UTF8Tests {
    /// Whether the parser and the standard library read the same string from these bytes, or both reject them.
    private func agrees(_ bytes: [UInt8], _ parser: inout JSONParser) -> Bool {
        let expected = String(validating: bytes, as: UTF8.self)
        let document: [UInt8] = [0x22] + bytes + [0x22]
        let found = document.withUnsafeBytes { try? parser.parse($0).string }
        return found.map { Array($0.utf8) } == expected.map { Array($0.utf8) }
    }

    @Test("the parser agrees with the standard library on every pair of bytes whose first is 0x80 to 0xFF")
    func everyPair() {
        var parser = JSONParser()
        var wrong: [[UInt8]] = []
        for first in UInt8(0x80)...0xFF {
            for second in UInt8(0x20)...0xFF where second != 0x22 && second != 0x5C {
                if !agrees([first, second], &parser) { wrong.append([first, second]) }
            }
        }
        #expect(wrong == [])
    }

    @Test("the parser agrees with the standard library on bytes just inside and outside every range of RFC 3629")
    func everyBoundary() {
        let leads: [UInt8] = [
            0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xF8,
            0xFF,
        ]
        let others: [UInt8] = [
            0x21, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x91, 0x9F, 0xA0, 0xA1, 0xBF, 0xC0, 0xC2, 0xE0, 0xFF,
        ]
        var parser = JSONParser()
        var wrong: [[UInt8]] = []
        for lead in leads {
            for second in others {
                for third in others {
                    if !agrees([lead, second, third], &parser) { wrong.append([lead, second, third]) }
                    for fourth in others where !agrees([lead, second, third, fourth], &parser) {
                        wrong.append([lead, second, third, fourth])
                    }
                }
            }
        }
        #expect(wrong == [])
    }

    @Test("every scalar value is accepted")
    func everyScalar() throws {
        var parser = JSONParser()
        var bytes: [UInt8] = [0x22]
        for value in UInt32(0x80)...0x10FFFF {
            if let scalar = Unicode.Scalar(value) { bytes.append(contentsOf: String(scalar).utf8) }
        }
        bytes.append(0x22)
        let count = try bytes.withUnsafeBytes { try parser.parse($0).string?.unicodeScalars.count }
        #expect(count == 0x110000 - 0x80 - 0x800)
    }

    @Test(
        "invalid UTF-8 is found at any position",
        arguments: [
            [0x80], [0xC0, 0x80], [0xC1, 0xBF], [0xE0, 0x9F, 0xBF], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF],
            [0xF0, 0x8F, 0xBF, 0xBF], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFF], [0xC3], [0xE2, 0x82],
            [0xF0, 0x9F, 0x98],
        ] as [[UInt8]])
    func faultPositions(fault: [UInt8]) {
        for before in 0..<20 {
            for after in [0, 1, 9] {
                let start = [UInt8]("[\"é".utf8) + [UInt8](repeating: 0x78, count: before)
                let document = start + fault + [UInt8](repeating: 0x78, count: after) + Array("\"]".utf8)
                let error = #expect(throws: JSONError.self) { try JSONValue(parsing: document) }
                #expect(error?.code == .invalidUTF8)
                #expect(error?.offset == start.count)
            }
        }
    }

    @Test("a character that is truncated by the end of the text is rejected")
    func truncation() {
        for character in ["é", "€", "😀"] {
            let bytes = Array("\"\(character)".utf8)
            for count in 2..<bytes.count {
                let error = #expect(throws: JSONError.self) { try JSONValue(parsing: Array(bytes[..<count])) }
                #expect(error?.code == .invalidUTF8)
                #expect(error?.reason == "the text ends inside a UTF-8 character")
            }
        }
    }

    @Test("member names are validated like strings")
    func names() {
        let error = #expect(throws: JSONError.self) { try JSONValue(parsing: Array("{\"a".utf8) + [0xC0, 0xAF, 0x22]) }
        #expect(error?.code == .invalidUTF8)
        #expect(error?.offset == 3)
    }
}
