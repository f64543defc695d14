/// MurmurHash3, the variant of 32 bits for x86, with the seed 0. All implementations of flagd use it to assign subjects
/// to buckets.
func murmurHash3(_ text: String) -> UInt32 {
    var text = text
    return text.withUTF8 { bytes in
        var hash: UInt32 = 0
        let blocks = bytes.count / 4
        let raw = UnsafeRawBufferPointer(bytes)
        for block in 0..<blocks {
            let word = raw.loadUnaligned(fromByteOffset: 4 &* block, as: UInt32.self)
            hash ^= scramble(UInt32(littleEndian: word))
            hash = rotated(hash, by: 13) &* 5 &+ 0xE654_6B64
        }
        var tail: UInt32 = 0
        for index in stride(from: bytes.count &- 1, through: 4 &* blocks, by: -1) {
            tail = tail &<< 8 | UInt32(bytes[index])
        }
        hash ^= scramble(tail)
        hash ^= UInt32(truncatingIfNeeded: bytes.count)
        hash = (hash ^ hash &>> 16) &* 0x85EB_CA6B
        hash = (hash ^ hash &>> 13) &* 0xC2B2_AE35
        return hash ^ hash &>> 16
    }
}

private func scramble(_ word: UInt32) -> UInt32 { rotated(word &* 0xCC9E_2D51, by: 15) &* 0x1B87_3593 }

private func rotated(_ word: UInt32, by bits: UInt32) -> UInt32 { word &<< bits | word &>> (32 &- bits) }
