import LarderDigest
import Testing

struct SHA256Tests {
    /// Digests of the examples of FIPS 180-2, of no bytes, and of inputs whose lengths are around the block size.
    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
        (String(repeating: "a", count: 63), "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"),
        (String(repeating: "a", count: 64), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"),
        (String(repeating: "a", count: 65), "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"),
        (
            String(repeating: "a", count: 1_000_000),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        ),
    ])
    func `a digest is that of the standard`(text: String, digest: String) {
        #expect(Self.hex(SHA256.hash(text.utf8)) == digest)
        #expect(Self.hex(SHA256.hash(Array(text.utf8)[...])) == digest)
        #expect(Self.hex(SHA256.hash(text.utf8.lazy.map { $0 })) == digest, "bytes without contiguous storage")
    }

    @Test func `a digest does not depend on how the input is cut`() {
        let bytes = (0..<200).map { UInt8($0) }
        let digest = SHA256.hash(bytes)
        for first in 0...bytes.count {
            for second in stride(from: first, through: bytes.count, by: 7) {
                var hash = SHA256()
                hash.update(bytes[..<first])
                hash.update(bytes[first..<second])
                bytes[second...].withUnsafeBytes { hash.update($0) }
                #expect(hash.finalize() == digest)
            }
        }
    }

    @Test func `a copy and the original continue independently`() {
        var hash = SHA256()
        hash.update("ab".utf8)
        var copy = hash
        #expect(hash.finalize() == SHA256.hash("ab".utf8))
        hash.update("c".utf8)
        copy.update("d".utf8)
        #expect(hash.finalize() == SHA256.hash("abc".utf8))
        #expect(copy.finalize() == SHA256.hash("abd".utf8))
        #expect(copy.finalize().count == SHA256.byteCount)
    }

    private static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { String(Int($0) + 256, radix: 16).suffix(2) }.joined()
    }
}
