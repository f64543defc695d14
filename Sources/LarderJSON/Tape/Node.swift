/// One entry of a document's tape: 16 bytes that say where a value's text is and how many entries belong to it.
///
/// The tape holds the nodes in the order of the text. An object's node is followed by a name and a value for each
/// member, in turn; an array's by its elements. An object with many members ends with one `table` node (see
/// `NameTable`). All distances are relative, so that a subtree can be copied to another tape.
struct Node {
    /// What a node is: the raw values of `JSONValue.Kind`, and two that are no values.
    enum Kind {
        static let null: UInt32 = 0
        static let bool: UInt32 = 1
        static let number: UInt32 = 2
        static let string: UInt32 = 3
        static let array: UInt32 = 4
        static let object: UInt32 = 5
        static let name: UInt32 = 6
        static let table: UInt32 = 7
        static let mask: UInt32 = 7
    }

    /// Bits of `info` beside the kind.
    enum Flag {
        /// bool: it is `true`.
        static let isTrue: UInt32 = 1 << 3
        /// string, name: the text holds at least one backslash.
        static let escaped: UInt32 = 1 << 3
        /// value: its text has no whitespace between tokens and no duplicate members, at any depth, so that the
        /// text is its own compact form. Always set for scalars.
        static let clean: UInt32 = 1 << 4
        /// container: an object in it may have a member that is null (never clear when one has).
        static let nullMembers: UInt32 = 1 << 5
        /// name: the same name stood earlier in this object; the earlier node speaks for both.
        static let later: UInt32 = 1 << 6
        /// object: its last node is a `table`.
        static let indexed: UInt32 = 1 << 6
        /// name: the same name comes again; `span` is the distance to the last name node that carries it.
        static let redirected: UInt32 = 1 << 7
        /// object, while it is parsed and has few members: some of them are duplicates.
        static let duplicates: UInt32 = 1 << 7
    }

    /// The largest count that `info` can hold; it stands for "this many or more".
    static let maximumCount: UInt32 = 0xFF_FFFF

    /// value, name: where the text begins, quotation mark included. table: index of the first slot.
    var offset: UInt32
    /// value, name: bytes of text, quotation marks included. table: slots, a power of two.
    var length: UInt32
    /// value: nodes in this subtree, itself included. name: its `NameHash` (or see `redirected`).
    /// table: number of distinct names.
    var span: UInt32
    /// Kind in the low three bits, then flags; from bit 8 the number of elements or distinct members.
    var info: UInt32

    @inline(__always) var kind: UInt32 { info & Kind.mask }
    @inline(__always) func has(_ flag: UInt32) -> Bool { info & flag != 0 }
    @inline(__always) var storedCount: UInt32 { info >> 8 }
}
