/// The four whitespace bytes of RFC 8259, section 2.
enum Whitespace {
    @inline(__always)
    static func isWhitespace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }

    /// The first byte at or after `start` that is not whitespace.
    @inline(__always)
    static func end(_ start: UnsafePointer<UInt8>) -> UnsafePointer<UInt8> {
        var cursor = start
        while true {
            // Indentation is mostly spaces, so eight are taken at once.
            while Word.load(cursor) == 0x2020_2020_2020_2020 { cursor += 8 }
            guard isWhitespace(cursor.pointee) else { return cursor }
            cursor += 1
        }
    }
}
