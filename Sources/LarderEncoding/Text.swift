extension String {
    /// The text, or its first 200 Unicode code points and an ellipsis if it is longer. For messages that repeat a text
    /// of any length.
    package var excerpt: String {
        let limit = 200
        // A code point has at least one byte.
        guard utf8.count > limit else { return self }
        let beginning = unicodeScalars.prefix(limit)
        return beginning.endIndex == endIndex ? self : String(beginning) + "…"
    }
}

extension String {
    /// The text, quoted as one word of a shell command if necessary. Messages use it for paths in the commands that they
    /// suggest.
    package var shellWord: String {
        let isPlain =
            !isEmpty
            && utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
                case UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: "/._-+:@%,".utf8.contains(byte)
                }
            }
        return isPlain ? self : "'\(replacing("'", with: "'\\''"))'"
    }
}

extension Unicode.Scalar {
    /// Whether the character could end a line, control a terminal or reorder the text: control characters (C0, DEL, C1),
    /// line and paragraph separators, and bidirectional marks, overrides and isolates.
    package var isUnsafeInLine: Bool {
        switch value {
        case 0...0x1F, 0x7F...0x9F, 0x61C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

/// The byte order mark of UTF-8, which some editors write at the beginning of a file. It is not part of the text.
package enum ByteOrderMark {
    private static let bytes: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// Returns the content of a file without a byte order mark at its beginning.
    package static func dropped(from content: [UInt8]) -> [UInt8] {
        content.starts(with: bytes) ? Array(content.dropFirst(bytes.count)) : content
    }
}
