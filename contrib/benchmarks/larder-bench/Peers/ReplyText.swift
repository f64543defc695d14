import Glibc

/// Searches replies without decoding them.
enum ReplyText {
    /// The offset of the first `needle` in `bytes`; nil if it does not occur.
    static func offset(of needle: String, in bytes: UnsafeRawBufferPointer) -> Int? {
        var needle = needle
        return needle.withUTF8 { offset(of: UnsafeRawBufferPointer($0), in: bytes) }
    }

    /// The offset of the first `needle` in `bytes`; nil if it does not occur.
    static func offset(of needle: UnsafeRawBufferPointer, in bytes: UnsafeRawBufferPointer) -> Int? {
        guard let base = bytes.baseAddress, let wanted = needle.baseAddress, needle.count > 0 else { return nil }
        // memmem(3) is not available in Swift.
        var start = 0
        while bytes.count - start >= needle.count,
            let found = memchr(base + start, Int32(needle[0]), bytes.count - start - needle.count + 1)
        {
            if memcmp(found, wanted, needle.count) == 0 { return UnsafeRawPointer(found) - base }
            start = UnsafeRawPointer(found) - base + 1
        }
        return nil
    }

    /// The offset after the first `needle` in `bytes`; nil if it does not occur.
    static func end(of needle: String, in bytes: [UInt8]) -> Int? {
        bytes.withUnsafeBytes { offset(of: needle, in: $0) }.map { $0 + needle.utf8.count }
    }

    /// The offsets of all occurrences of `needle` in `bytes`.
    static func offsets(of needle: String, in bytes: [UInt8]) -> [Int] {
        var offsets: [Int] = []
        var start = 0
        while let end = end(of: needle, in: Array(bytes[start...])) {
            offsets.append(start + end - needle.utf8.count)
            start += end
        }
        return offsets
    }

    /// The first 300 bytes of a reply, without line ends, for error messages.
    static func excerpt(_ bytes: UnsafeRawBufferPointer) -> String {
        let text = String(decoding: bytes.prefix(300), as: UTF8.self)
        return text.split(whereSeparator: \.isNewline).joined(separator: " ") + (bytes.count > 300 ? " …" : "")
    }
}
