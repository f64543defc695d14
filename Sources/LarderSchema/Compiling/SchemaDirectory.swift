/// The directory of a schema file. References of the schema may lead to files in it and below it, and nowhere else.
package struct SchemaDirectory: Sendable {
    private let segments: [Substring]
    /// The path of the directory.
    package var path: String { "/" + segments.joined(separator: "/") }
    /// The URI of the schema file (RFC 8089).
    package let uri: String

    /// - Parameter path: the absolute path of the schema file
    package init(ofFile path: String) {
        segments = path.split(separator: "/").dropLast()
        uri = "file://" + path.utf8.map(Self.escaped).joined()
    }

    /// The path of the file that a URI refers to; nil if the file is outside of the directory, and for any URI that is
    /// not a `file` URI.
    package func path(of uri: String) -> String? {
        guard uri.hasPrefix("file:///"), let path = Self.decoded(uri.dropFirst(7)) else { return nil }
        let found = path.split(separator: "/")
        guard found.starts(with: segments, by: { $0.utf8.elementsEqual($1.utf8) }), found.count > segments.count,
            !found.contains("..")
        else { return nil }
        return path
    }

    /// Percent-encodes a byte unless it may stand in the path of a URI (RFC 3986, section 3.3).
    private static func escaped(_ byte: UInt8) -> String {
        let isPlain = byte > 0x20 && byte < 0x7F && !"%?#[]\"<>\\^`{|}".utf8.contains(byte)
        if isPlain { return String(UnicodeScalar(byte)) }
        return "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }

    /// Replaces percent-encoded bytes; nil if the encoding is invalid, or if the result is not UTF-8 or contains a NUL,
    /// which would end the path of a system call.
    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
                return nil
            }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return bytes.contains(0) ? nil : String(validating: bytes, as: UTF8.self)
    }
}
