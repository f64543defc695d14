/// An entry of a document's tape: 16 bytes with the position of a value's text and the number of entries in its
/// subtree.
///
/// The nodes are in the order of the text. The node of an object is followed by a name node and a value node for each
/// member, the node of an array by its elements. An object with many members ends with a `table` node (see
/// ``NameTable``). All distances are relative, so a subtree can be copied to another tape.
@usableFromInline
struct Node: BitwiseCopyable {
    /// The kinds of nodes: the raw values of ``JSONValue/Kind``, and two kinds that are not values.
    @usableFromInline
    enum Kind {
        static let null: UInt32 = 0
        static let bool: UInt32 = 1
        static let number: UInt32 = 2
        static let string: UInt32 = 3
        @inlinable static var array: UInt32 { 4 }
        @inlinable static var object: UInt32 { 5 }
        static let name: UInt32 = 6
        static let table: UInt32 = 7
        @inlinable static var mask: UInt32 { 7 }
    }

    /// Flags in `info`. The meaning of a bit depends on the kind of node.
    @usableFromInline
    enum Flag {
        /// bool: the value is `true`.
        @inlinable static var isTrue: UInt32 { 1 << 3 }
        /// string, name: the text contains a backslash.
        @inlinable static var escaped: UInt32 { 1 << 3 }
        /// value: the text has no whitespace between tokens and no duplicate members, at any depth, so it is compact.
        /// Always set for scalars.
        static let clean: UInt32 = 1 << 4
        /// container: the container, or an object in it, may have a null member. If the flag is clear, there is no null
        /// member at any depth.
        static let nullMembers: UInt32 = 1 << 5
        /// name: the name occurs earlier in this object, so this node is skipped.
        @inlinable static var later: UInt32 { 1 << 6 }
        /// object: set if the last node in the subtree of the object is a `table`.
        @inlinable static var indexed: UInt32 { 1 << 6 }
        /// name: the name occurs again later. `span` is the distance to the last name node with this name.
        @inlinable static var redirected: UInt32 { 1 << 7 }
        /// object of few members, during parsing: the object has duplicate members.
        static let duplicates: UInt32 = 1 << 7
    }

    /// The largest count that `info` can store. It means "this many or more".
    static let maxCount: UInt32 = 0xFF_FFFF

    /// value, name: the start of the text, including the quotation mark. table: the index of the first slot.
    @usableFromInline var offset: UInt32
    /// value, name: the size of the text in bytes, including quotation marks. table: the number of slots, a power of
    /// two.
    @usableFromInline var length: UInt32
    /// value: the number of nodes in the subtree, including this one. name: its ``NameHash``, or a distance if
    /// `redirected`. table: the number of distinct names.
    @usableFromInline var span: UInt32
    /// The kind in the lowest three bits, then the flags. From bit 8 on: the number of elements or distinct members.
    @usableFromInline var info: UInt32

    @inlinable @inline(__always) var kind: UInt32 { info & Kind.mask }
    @inlinable @inline(__always) func has(_ flag: UInt32) -> Bool { info & flag != 0 }
    @inlinable @inline(__always) var storedCount: UInt32 { info >> 8 }
}
