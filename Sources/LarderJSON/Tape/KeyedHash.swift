/// SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF") with a random key for each process, so that
/// clients cannot choose names that collide in a ``NameTable``.
///
/// The standard library's `Hasher` uses the same algorithm, but takes several times as long for a short name.
struct KeyedHash {
    private static let key = KeyedHash(k0: .random(in: .min ... .max), k1: .random(in: .min ... .max))

    /// The two halves of the key.
    let k0: UInt64
    let k1: UInt64

    /// The hash function with the key of this process.
    static var process: KeyedHash { key }

    @inline(__always)
    func callAsFunction(_ bytes: UnsafeRawBufferPointer) -> UInt64 {
        var state = State(
            v0: k0 ^ 0x736F_6D65_7073_6575, v1: k1 ^ 0x646F_7261_6E64_6F6D, v2: k0 ^ 0x6C79_6765_6E65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573)
        let whole = bytes.count & ~7
        var index = 0
        while index < whole {
            state.absorb(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
            index += 8
        }
        var last = UInt64(truncatingIfNeeded: bytes.count) << 56
        var shift: UInt64 = 0
        while index < bytes.count {
            last |= UInt64(bytes[index]) &<< shift
            shift += 8
            index += 1
        }
        state.absorb(last)
        return state.finish()
    }

    private struct State {
        var v0: UInt64
        var v1: UInt64
        var v2: UInt64
        var v3: UInt64

        @inline(__always)
        mutating func absorb(_ word: UInt64) {
            v3 ^= word
            round()
            v0 ^= word
        }

        @inline(__always)
        mutating func finish() -> UInt64 {
            v2 ^= 0xFF
            round()
            round()
            round()
            return v0 ^ v1 ^ v2 ^ v3
        }

        @inline(__always)
        private mutating func round() {
            v0 &+= v1
            v1 = v1 &<< 13 | v1 &>> 51
            v1 ^= v0
            v0 = v0 &<< 32 | v0 &>> 32
            v2 &+= v3
            v3 = v3 &<< 16 | v3 &>> 48
            v3 ^= v2
            v0 &+= v3
            v3 = v3 &<< 21 | v3 &>> 43
            v3 ^= v0
            v2 &+= v1
            v1 = v1 &<< 17 | v1 &>> 47
            v1 ^= v2
            v2 = v2 &<< 32 | v2 &>> 32
        }
    }
}
