/// The SHA-256 digest of an image.
public struct WireDigest: Sendable, Hashable, CustomStringConvertible {
    /// 64 lowercase hexadecimal digits, which are also the name of the image's file.
    public let hex: String

    /// Reads 64 hexadecimal digits in upper or lower case, with or without the prefix `sha256:`.
    public init?(_ text: String) {
        let digits = text.utf8.starts(with: Self.prefix.utf8) ? text.dropFirst(Self.prefix.count) : text[...]
        guard digits.utf8.count == 64, digits.utf8.allSatisfy(\.isHexadecimalDigit) else { return nil }
        hex = digits.lowercased()
    }

    /// `sha256:` followed by the digits, as on the wire.
    public var description: String { Self.prefix + hex }

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
