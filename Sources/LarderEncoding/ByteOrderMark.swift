/// The byte order mark of UTF-8, which some editors write at the beginning of a file. It is not part of the text.
package enum ByteOrderMark {
    private static let bytes: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// Returns the content of a file without a byte order mark at its beginning.
    package static func dropped(from content: [UInt8]) -> [UInt8] {
        content.starts(with: bytes) ? Array(content.dropFirst(bytes.count)) : content
    }
}
