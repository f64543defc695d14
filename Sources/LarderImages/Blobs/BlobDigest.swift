internal import LarderEncoding
package import LarderImageFormats

/// The SHA-256 of an image's bytes. It is also the name of the image's file.
package struct BlobDigest: Sendable, Hashable, CustomStringConvertible {
    /// The 32 bytes as big-endian integers.
    private let words: (UInt64, UInt64, UInt64, UInt64)

    /// Creates a digest from its 32 bytes. Returns nil for any other number of bytes.
    init?(_ bytes: [UInt8]) {
        guard let digest = bytes.withUnsafeBytes({ BlobDigest($0) }) else { return nil }
        self = digest
    }

    /// Creates a digest from its 32 bytes. Returns nil for any other number of bytes.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 32 else { return nil }
        func word(_ offset: Int) -> UInt64 {
            UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
        }
        words = (word(0), word(8), word(16), word(24))
    }

    /// Parses 64 lower-case hexadecimal digits; nil for any other text. A file in `blobs` with any other name is
    /// therefore never opened or removed.
    package init?(hex: String) {
        guard hex.utf8.count == 64, let bytes = [UInt8](hex: hex) else { return nil }
        self.init(bytes)
    }

    /// The first byte, which names the directory of the file.
    var shard: UInt8 { UInt8(truncatingIfNeeded: words.0 >> 56) }

    var bytes: [UInt8] {
        [words.0, words.1, words.2, words.3].flatMap { word in
            stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> UInt64($0)) }
        }
    }

    /// 64 hexadecimal digits in lower case.
    package var description: String { bytes.hex }

    /// Writes ``description`` to memory with space for 64 characters.
    func write(to digits: UnsafeMutablePointer<CChar>) {
        let memory = UnsafeMutableRawPointer(digits)
        func write(_ word: UInt64, at offset: Int) {
            memory.storeBytes(of: Self.digits(word >> 32).bigEndian, toByteOffset: offset, as: UInt64.self)
            memory.storeBytes(of: Self.digits(word & 0xFFFF_FFFF).bigEndian, toByteOffset: offset + 8, as: UInt64.self)
        }
        write(words.0, at: 0)
        write(words.1, at: 16)
        write(words.2, at: 32)
        write(words.3, at: 48)
    }

    /// The eight hexadecimal digits of a number of 32 bits, the first one in the highest byte. Each reply with a path
    /// needs them, so all eight are computed at once.
    private static func digits(_ number: UInt64) -> UInt64 {
        // Spread the half-bytes to one byte each.
        var bytes = (number << 16) & 0xFFFF_0000_0000 | number & 0xFFFF
        bytes = (bytes << 8) & 0x00FF_0000_00FF_0000 | bytes & 0x0000_00FF_0000_00FF
        bytes = (bytes << 4) & 0x0F00_0F00_0F00_0F00 | bytes & 0x000F_000F_000F_000F
        // 1 in each byte above 9, whose digit is a letter.
        let letters = ((bytes &+ 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101
        return bytes &+ 0x3030_3030_3030_3030 &+ letters &* 0x27
    }

    package static func == (left: BlobDigest, right: BlobDigest) -> Bool {
        left.words.0 == right.words.0 && left.words.1 == right.words.1 && left.words.2 == right.words.2
            && left.words.3 == right.words.3
    }

    /// The first eight bytes of a SHA-256 are uniformly distributed, so they need no further hashing.
    package func hash(into hasher: inout Hasher) { hasher.combine(words.0) }
}

/// A published image.
package struct PublishedBlob: Sendable, Hashable {
    package let digest: BlobDigest
    /// The size in bytes.
    package let size: Int
    /// The type and the size in pixels.
    package let header: ImageHeader
}
