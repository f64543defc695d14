import Testing

@testable import LarderJSON

@Suite("Keyed hash")
struct KeyedHashTests {
    @Test("the hash matches the published SipHash-1-3 vectors for the key 00…0f")
    func vectors() {
        let expected: [UInt64] = [
            0xABAC_0158_050F_C4DC, 0xC9F4_9BF3_7D57_CA93, 0x82CB_9B02_4DC7_D44D, 0x8BF8_0AB8_E7DD_F7FB,
            0xCF75_5760_88D3_8328, 0xDEF9_D52F_4953_3B67, 0xC50D_2B50_C59F_22A7, 0xD392_7D98_9BB1_1140,
            0x3690_9511_8D29_9A8E, 0x25A4_8EB3_6C06_3DE4,
        ]
        let hash = KeyedHash(k0: 0x0706_0504_0302_0100, k1: 0x0F0E_0D0C_0B0A_0908)
        for (count, value) in expected.enumerated() {
            let bytes = (0..<UInt8(count)).map { $0 }
            #expect(bytes.withUnsafeBytes { hash($0) } == value)
        }
    }
}
