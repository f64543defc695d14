/// Processes eight bytes at a time, as a word with the lowest address in the lowest bits. Swift's SIMD vectors are not
/// used: they cannot produce a bit mask of the matching bytes, and their masks are not always compiled to vector
/// instructions.
enum Word {
    @inline(__always)
    static func load(_ pointer: UnsafePointer<UInt8>) -> UInt64 {
        UInt64(littleEndian: UnsafeRawPointer(pointer).loadUnaligned(as: UInt64.self))
    }

    @inline(__always)
    static func load32(_ pointer: UnsafePointer<UInt8>) -> UInt32 {
        UInt32(littleEndian: UnsafeRawPointer(pointer).loadUnaligned(as: UInt32.self))
    }

    /// The first eight bytes, or all of them padded with zeros if there are fewer. Never reads past the end.
    @inline(__always)
    static func head(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        let count = bytes.count
        if count >= 8 { return UInt64(littleEndian: bytes.loadUnaligned(as: UInt64.self)) }
        if count >= 4 {
            let low = UInt32(littleEndian: bytes.loadUnaligned(as: UInt32.self))
            let high = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: count - 4, as: UInt32.self))
            return UInt64(low) | UInt64(high) &<< UInt64(truncatingIfNeeded: (count &- 4) &* 8)
        }
        var head: UInt64 = 0
        for index in 0..<count { head |= UInt64(bytes[index]) &<< UInt64(truncatingIfNeeded: 8 &* index) }
        return head
    }

    /// A mask of the lowest `count` bytes of a word. `count` is at most 8.
    @inline(__always)
    static func lowBytes(_ count: Int) -> UInt64 {
        // Two shifts by half the number of bits, because `&<<` treats a shift by 64 as a shift by 0.
        let bits = UInt64(truncatingIfNeeded: count) &* 4
        return ~((UInt64.max &<< bits) &<< bits)
    }

    /// Returns a word in which bit 7 is set for each byte that ends a run of plain ASCII in a string: a quotation mark,
    /// a backslash, a control character, or a byte of a multibyte UTF-8 character. Only the lowest set bit is reliable,
    /// because a subtraction may borrow from the byte above a match.
    @inline(__always)
    static func special(_ word: UInt64) -> UInt64 {
        let quote = word ^ 0x2222_2222_2222_2222
        let backslash = word ^ 0x5C5C_5C5C_5C5C_5C5C
        let ones: UInt64 = 0x0101_0101_0101_0101
        return (word | (word &- 0x2020_2020_2020_2020) | (quote &- ones) | (backslash &- ones)) & 0x8080_8080_8080_8080
    }
    /// Nonzero if at least one byte of `word` must be escaped in a JSON string. Byte order does not matter.
    @inline(__always)
    static func escaped(_ word: UInt64) -> UInt64 {
        let quote = word ^ 0x2222_2222_2222_2222
        let backslash = word ^ 0x5C5C_5C5C_5C5C_5C5C
        let ones: UInt64 = 0x0101_0101_0101_0101
        let control = (word &- 0x2020_2020_2020_2020) & ~word
        return (control | (quote &- ones) & ~quote | (backslash &- ones) & ~backslash) & 0x8080_8080_8080_8080
    }
}
