/// Encodes and decodes base64 (RFC 4648, section 4), with padding and without line ends.
package enum InlineBytes {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    /// The value of each digit, indexed by byte; 255 for bytes that are not digits.
    private static let numbers: [UInt8] = (0...255).map { byte in
        alphabet.firstIndex(of: UInt8(byte)).map { UInt8($0) } ?? 255
    }

    static func text(of bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let rest = min(3, bytes.count - start)
            var group = 0
            for offset in 0..<3 { group = group << 8 | (offset < rest ? Int(bytes[start + offset]) : 0) }
            for digit in 0..<4 {
                text.append(digit <= rest ? alphabet[group >> (18 - 6 * digit) & 63] : UInt8(ascii: "="))
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes base64. Returns nil if the text is not valid.
    package static func bytes(of text: String) -> [UInt8]? {
        let digits = Array(text.utf8)
        guard digits.count % 4 == 0 else { return nil }
        let padding = digits.suffix(2).count { $0 == UInt8(ascii: "=") }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 4 * 3)
        var group = 0
        for (index, digit) in digits.dropLast(padding).enumerated() {
            let number = numbers[Int(digit)]
            guard number < 64 else { return nil }
            group = (group << 6 | Int(number)) & 0xFF_FFFF
            switch index % 4 {
            case 1: bytes.append(UInt8(truncatingIfNeeded: group >> 4))
            case 2: bytes.append(UInt8(truncatingIfNeeded: group >> 2))
            case 3: bytes.append(UInt8(truncatingIfNeeded: group))
            default: break
            }
        }
        return bytes
    }
}

/// The SHA-256 digest of an image.
package struct WireDigest: Sendable, Hashable, CustomStringConvertible {
    /// 64 lowercase hexadecimal digits, which are also the name of the image's file.
    package let hex: String

    /// Reads 64 hexadecimal digits in upper or lower case, with or without the prefix `sha256:`.
    package init?(_ text: String) {
        let digits = text.utf8.starts(with: Self.prefix.utf8) ? text.dropFirst(Self.prefix.count) : text[...]
        guard digits.utf8.count == 64, digits.utf8.allSatisfy(\.isHexadecimalDigit) else { return nil }
        hex = digits.lowercased()
    }

    /// `sha256:` followed by the digits, as on the wire.
    package var description: String { Self.prefix + hex }

    private static let prefix = "sha256:"
}

extension UInt8 {
    fileprivate var isHexadecimalDigit: Bool {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }
}
