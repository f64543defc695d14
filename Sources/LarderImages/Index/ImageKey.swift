internal import Crypto

/// Under what an image is looked up: 128 bits of the SHA-256 of its key's text. The text itself, most often a URL, is only
/// on disk; that two have the same bits does not happen, not even to somebody who wants it to.
public struct ImageKey: Sendable, Hashable, CustomStringConvertible {
    let high: UInt64
    let low: UInt64

    /// The key of a text: a URL, or what stands for it, together with what answers are kept apart by.
    public init(_ text: String) {
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
        guard hex.utf8.count == 32, hex.utf8.allSatisfy({ (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }),
            let high = UInt64(hex.prefix(16), radix: 16), let low = UInt64(hex.dropFirst(16), radix: 16)
        else { return nil }
        (self.high, self.low) = (high, low)
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
    public var description: String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// The bits are as good as random already.
    public func hash(into hasher: inout Hasher) { hasher.combine(high) }
}
