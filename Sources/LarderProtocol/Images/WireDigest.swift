import LarderJSON

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

extension MemberReader {
    /// A digest; nil where the member is absent or null.
    func digest(_ name: String) throws(WireError) -> WireDigest? {
        guard let text = try string(name) else { return nil }
        guard let digest = WireDigest(text) else {
            throw WireError(
                .invalidParams, "\"\(name)\" must be a SHA-256 in 64 hexadecimal digits, such as sha256sum(1) prints")
        }
        return digest
    }
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
