/// The FNV-1a hash with 64 bits (draft-eastlake-fnv).
///
/// The same bytes have the same hash in every process and every version, so it may be stored; `Hasher` is seeded in each
/// process. It detects accidents. It does not resist an attacker who looks for collisions.
package struct FNV1a: Sendable {
    /// The hash of the bytes added so far.
    @usableFromInline package var value: UInt64 = 0xcbf2_9ce4_8422_2325

    @inlinable
    package init() {}

    /// Adds a byte.
    @inlinable
    package mutating func add(_ byte: UInt8) {
        value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01b3
    }

    /// Adds bytes in their order.
    @inlinable
    package mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { add(byte) }
    }
}
