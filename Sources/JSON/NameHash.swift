/// A fast 32-bit hash of a name's bytes (after unescaping), kept in each name node to tell names apart without looking
/// at the text. It looks at the length and at no more than sixteen bytes, so it is easy to make collisions on purpose:
/// it only filters, and large objects are found by `NameTable`'s keyed hash.
enum NameHash {
    /// Hash of a name of `count` bytes that may be read up to eight bytes past its end.
    @inline(__always)
    static func padded(_ name: UnsafePointer<UInt8>, _ count: Int) -> UInt32 {
        // Without a branch: whether a name is shorter than a word is hard to predict.
        let mask = Word.lowBytes(min(count, 8))
        return mix(Word.load(name) & mask, Word.load(name + max(count - 8, 0)) & mask, count)
    }

    /// The same hash of bytes that must not be read past their end.
    static func exact(_ name: UnsafeRawBufferPointer) -> UInt32 {
        let head = Word.head(name)
        guard name.count >= 8 else { return mix(head, head, name.count) }
        let tail = name.loadUnaligned(fromByteOffset: name.count - 8, as: UInt64.self)
        return mix(head, UInt64(littleEndian: tail), name.count)
    }

    @inline(__always)
    private static func mix(_ head: UInt64, _ tail: UInt64, _ count: Int) -> UInt32 {
        var hash = (head ^ (tail << 31 | tail >> 33) ^ UInt64(truncatingIfNeeded: count)) &* 0x9E37_79B9_7F4A_7C15
        hash ^= hash >> 32
        hash = hash &* 0xD6E8_FEB8_6659_FD93
        return UInt32(truncatingIfNeeded: hash >> 32)
    }
}
