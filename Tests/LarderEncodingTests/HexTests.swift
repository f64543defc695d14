import LarderEncoding
import Testing

@Suite("Hexadecimal text")
struct HexTests {
    @Test("each byte becomes two lowercase hexadecimal digits")
    func encoding() {
        #expect([UInt8]().hex == "")
        #expect([0x00, 0x09, 0x0a, 0x10, 0x9f, 0xff].hex == "00090a109fff")
        #expect(withUnsafeBytes(of: UInt64(0x0123_4567_89ab_cdef).bigEndian) { $0.hex } == "0123456789abcdef")
        #expect([1, 2, 3, 4][1...2].hex == "0203")
    }

    @Test("every byte is decoded from its text")
    func roundTrip() {
        let bytes = [UInt8](0...255)
        #expect(bytes.hex.utf8.count == 512)
        #expect([UInt8](hex: bytes.hex) == bytes)
        #expect([UInt8](hex: "") == [])
    }

    @Test(
        "text that is not pairs of lowercase hexadecimal digits is rejected",
        arguments: ["0", "000", "0g", "FF", "aF", "0x00", " 00", "00 ", "+1", "-1", "0\u{661}", "ää", "/:", "`@"])
    func refusal(_ text: String) {
        #expect([UInt8](hex: text) == nil)
    }
}
