internal import LarderEncoding

/// The SHA-256 of an image's bytes, which is also its name on disk.
package struct BlobDigest: Sendable, Hashable, CustomStringConvertible {
    /// The 32 bytes, eight in each number, the first highest.
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Takes 32 bytes.
    init?(_ bytes: [UInt8]) {
        guard let digest = bytes.withUnsafeBytes({ BlobDigest($0) }) else { return nil }
        self = digest
    }

    /// Takes 32 bytes.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 32 else { return nil }
        func word(_ offset: Int) -> UInt64 {
            UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        }
        words = (word(0), word(8), word(16), word(24))
    }

    /// Reads 64 hexadecimal digits in lower case, and nothing else: no other name is ever opened or removed.
    package init?(hex: String) {
        guard hex.utf8.count == 64, let bytes = [UInt8](hex: hex) else { return nil }
        self.init(bytes)
    }

    /// The first byte, which names the directory that its file is in.
    var shard: UInt8 { UInt8(truncatingIfNeeded: words.0 >> 56) }

    /// The 32 bytes.
    var bytes: [UInt8] {
        [words.0, words.1, words.2, words.3].flatMap { word in
            stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> UInt64($0)) }
        }
    }

    /// 64 hexadecimal digits in lower case.
    package var description: String { bytes.hex }

    /// Whether all 32 bytes are the same.
    package static func == (left: BlobDigest, right: BlobDigest) -> Bool {
        left.words.0 == right.words.0 && left.words.1 == right.words.1 && left.words.2 == right.words.2
            && left.words.3 == right.words.3
    }

    /// The first bytes are as good as random already.
    package func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
}
