import Testing

@testable import LarderJSON

@Suite("Fast hash of names")
struct NameHashTests {
    @Test("a name of any length has the same hash within a document as on its own")
    func bothWays() {
        for count in 0...40 {
            let name = (0..<count).map { UInt8(truncatingIfNeeded: 33 &+ $0 &* 7) }
            let padded = [0xFF] + name + [UInt8](repeating: 0xFF, count: 16)
            let fromDocument = padded.withUnsafeBufferPointer { buffer in
                buffer.baseAddress.map { NameHash.padded($0 + 1, count) }
            }
            #expect(fromDocument == name.withUnsafeBytes { NameHash.exact($0) })
        }
    }

    @Test("a change of any byte of a short name changes the hash")
    func changes() {
        for count in 1...16 {
            let name = [UInt8](repeating: 0x61, count: count)
            let hash = name.withUnsafeBytes { NameHash.exact($0) }
            for place in 0..<count {
                var other = name
                other[place] = 0x62
                #expect(other.withUnsafeBytes { NameHash.exact($0) } != hash)
            }
        }
    }
}
