/// The 64-bit FNV-1a hash (draft-eastlake-fnv).
///
/// Equal bytes have equal hashes in every process and every version, so hashes may be stored. (`Hasher` is seeded per
/// process.) The hash detects accidental changes but does not resist deliberate collisions.
package struct FNV1a: Sendable {
    /// The hash of the bytes added so far.
    @usableFromInline package var value: UInt64 = 0xcbf2_9ce4_8422_2325

    @inlinable
    package init() {}

    @inlinable
    package mutating func add(_ byte: UInt8) {
        value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01b3
    }

    @inlinable
    package mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { add(byte) }
    }
}
