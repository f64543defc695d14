internal import Crypto
internal import LarderEncoding

/// Under what an image is looked up: 128 bits of the SHA-256 of its key's text. The text itself, most often a URL, is only
/// on disk; that two have the same bits does not happen, not even to somebody who wants it to.
package struct ImageKey: Sendable, Hashable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    /// The key of a text: a URL, or what stands for it, together with what answers are kept apart by.
    package init(_ text: String) {
        var numbers: [UInt64] = [0, 0]
        for (index, byte) in SHA256.hash(data: Array(text.utf8)).prefix(16).enumerated() {
            numbers[index / 8] = numbers[index / 8] << 8 | UInt64(byte)
        }
        (high, low) = (numbers[0], numbers[1])
    }

    /// Takes 16 bytes.
    init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 16 else { return nil }
        high = UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self))
        low = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }

    /// Reads 32 hexadecimal digits in lower case, and nothing else.
    init?(hex: String) {
        guard hex.utf8.count == 32, let key = [UInt8](hex: hex)?.withUnsafeBytes({ ImageKey($0) }) else { return nil }
        self = key
    }

    /// The 16 bytes.
    var bytes: [UInt8] {
        [high, low].flatMap { number in
            stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> UInt64($0)) }
        }
    }

    /// The bits by which ``S3FIFO`` recognises an image that comes back.
    var fingerprint: UInt32 { UInt32(truncatingIfNeeded: low) }

    /// 32 hexadecimal digits.
    package var description: String { bytes.hex }

    /// The bits are as good as random already.
    package func hash(into hasher: inout Hasher) { hasher.combine(high) }
}
