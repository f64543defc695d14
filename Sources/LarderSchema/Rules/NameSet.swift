import Glibc
import LarderJSON

/// A hash table of strings in the pools of a program: the names of an object rule, or the strings of an `enum`.
struct NameSet: Sendable {
    /// The index of the first slot. A slot contains a position plus 1, or 0 if it is empty.
    var slots: UInt32 = 0
    /// The number of slots minus 1; the number is a power of two.
    var mask: UInt32 = 0
    /// The index of the first entry.
    var entries: UInt32 = 0
    var count: UInt32 = 0

    struct Entry: Sendable {
        var hash: UInt32
        /// The index of the name.
        var name: Int32
        /// For properties: the subschema.
        var node = RuleIndex.none
        var isRequired = false
    }
}

/// A text in the bytes of a program.
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
