import Glibc
import LarderJSON

/// A hash table of strings, stored in the arrays of a ``SchemaProgram``: the names of an object rule, or the strings of
/// an `enum` or `const`.
struct NameSet: Sendable {
    /// The index of the first slot in `SchemaProgram.slots`. A slot contains the position of an entry plus 1, or 0 if
    /// the slot is empty.
    var slots: UInt32 = 0
    /// The number of slots minus 1. The number of slots is a power of two.
    var mask: UInt32 = 0
    /// The index of the first entry in `SchemaProgram.entries`.
    var entries: UInt32 = 0
    var count: UInt32 = 0

    struct Entry: Sendable {
        var hash: UInt32
        /// The index of the name in `SchemaProgram.names`.
        var name: Int32
        /// The subschema if the name is in `properties`.
        var node = RuleIndex.none
        var isRequired = false
    }
}

/// A text as a range of `SchemaProgram.nameBytes`.
struct NameText: Sendable {
    var start: UInt32
    var count: UInt32
}

extension UnsafeBufferPointer<UInt8> {
    @inline(__always)
    func equals(_ other: UnsafeBufferPointer<UInt8>) -> Bool {
        guard count == other.count else { return false }
        guard count > 0, let start = baseAddress, let otherStart = other.baseAddress else { return true }
        return memcmp(start, otherStart, count) == 0
    }
}
