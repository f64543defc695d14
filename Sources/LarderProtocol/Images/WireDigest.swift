/// The SHA-256 of an image's bytes.
public struct WireDigest: Sendable, Hashable, CustomStringConvertible {
    /// 64 hexadecimal digits in lower case, which are also the name of the image's file.
    public let hex: String

    /// Reads 64 hexadecimal digits, in either case, with `sha256:` before them or without.
    public init?(_ text: String) {
        let digits = text.utf8.starts(with: Self.prefix.utf8) ? text.dropFirst(Self.prefix.count) : text[...]
        guard digits.utf8.count == 64, digits.utf8.allSatisfy(\.isHexadecimalDigit) else { return nil }
        hex = digits.lowercased()
    }

    /// `sha256:` and the digits, as it is written on the wire.
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
