internal import LarderDigest
internal import LarderEncoding

/// The lookup key of an image: the first 128 bits of the SHA-256 of its key text. The text itself, usually a URL, is
/// stored on disk only. Finding two texts with the same key would take about 2^64 attempts.
package struct ImageKey: Sendable, Hashable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    /// Computes the key of a key text; see ``CacheLocation/keyText``.
    package init(_ text: String) {
        var numbers: [UInt64] = [0, 0]
        for (index, byte) in SHA256.hash(text.utf8).prefix(16).enumerated() {
            numbers[index / 8] = numbers[index / 8] << 8 | UInt64(byte)
        }
        (high, low) = (numbers[0], numbers[1])
    }

    /// Creates a key from its 16 bytes. Returns nil for any other number of bytes.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 16 else { return nil }
        high = UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))
        low = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }

    /// Parses 32 lower-case hexadecimal digits; nil for any other text.
    init?(hex: String) {
        guard hex.utf8.count == 32, let key = [UInt8](hex: hex)?.withUnsafeBytes({ ImageKey($0) }) else { return nil }
        self = key
    }

    var bytes: [UInt8] {
        [high, low].flatMap { number in
            stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
        }
    }

    /// The bits by which ``S3FIFO`` recognises an image that is added again after its eviction.
    var fingerprint: UInt32 { UInt32(truncatingIfNeeded: low) }

    /// 32 lower-case hexadecimal digits.
    package var description: String { bytes.hex }

    /// The bits of a SHA-256 are uniformly distributed, so they need no further hashing.
    package func hash(into hasher: inout Hasher) { hasher.combine(high) }
}
