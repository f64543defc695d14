import LarderEncoding
import Testing

/// The hash must not change: hashes are stored on disk, and hosts derive their poll schedules from them.
@Suite("FNV-1a")
struct FNV1aTests {
    @Test(
        "hashes match the published test vectors",
        arguments: [
            ("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("b", 0xaf63_df4c_8601_f1a5),
            ("foo", 0xdcb2_7518_fed9_d577), ("foobar", 0x8594_4171_f739_67e8),
        ] as [(String, UInt64)])
    func vectors(_ text: String, _ expected: UInt64) {
        var hash = FNV1a()
        hash.add(text.utf8)
        #expect(hash.value == expected)
    }

    @Test("bytes added in parts have the same hash as the whole")
    func parts() {
        var whole = FNV1a()
        whole.add("foobar".utf8)
        var parts = FNV1a()
        parts.add("foo".utf8)
        for byte in "bar".utf8 { parts.add(byte) }
        parts.add([UInt8]())
        #expect(parts.value == whole.value)
    }
}
