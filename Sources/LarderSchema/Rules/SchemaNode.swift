import Glibc
import LarderJSON

/// A set of JSON types.
struct TypeSet: OptionSet, Sendable {
    let rawValue: UInt8

    /// The number of the bit of each type up to `object` is the raw value of its ``JSONValue/Kind``.
    static let null = TypeSet(rawValue: 1 << 0)
    static let boolean = TypeSet(rawValue: 1 << 1)
    static let number = TypeSet(rawValue: 1 << 2)
    static let string = TypeSet(rawValue: 1 << 3)
    static let array = TypeSet(rawValue: 1 << 4)
    static let object = TypeSet(rawValue: 1 << 5)
    /// Numbers without a fraction. This bit has no effect if `number` is also in the set.
    static let integer = TypeSet(rawValue: 1 << 6)
    static let all = TypeSet(rawValue: 0x3f)

    /// The names of the types in the keyword `type`.
    static let names: [(name: String, type: TypeSet)] = [
        ("null", .null), ("boolean", .boolean), ("integer", .integer), ("number", .number), ("string", .string),
        ("array", .array), ("object", .object),
    ]
}

/// A range of elements in one of the arrays of a ``SchemaProgram``.
struct PoolRange: Sendable {
    var start: UInt32 = 0
    var count: UInt32 = 0

    init() {}

    init(_ start: Int, _ count: Int) {
        self.start = UInt32(count == 0 ? 0 : start)
        self.count = UInt32(count)
    }

    @inline(__always) var isEmpty: Bool { count == 0 }
    @inline(__always) var range: Range<Int> { Int(start)..<Int(start) + Int(count) }
}

/// The index of a node or rule; negative for no rule.
struct RuleIndex: Sendable, Equatable {
    var rawValue: Int32

    static let none = RuleIndex(rawValue: -1)

    init(rawValue: Int32) { self.rawValue = rawValue }
    init(_ index: Int) { rawValue = Int32(index) }

    @inline(__always) var isNone: Bool { rawValue < 0 }
    @inline(__always) var position: Int { Int(rawValue) }
}

/// A compiled schema or subschema. Like all rules it contains no object references, so that reading it needs no
/// reference counting.
struct SchemaNode: Sendable {
    var types = TypeSet.all
    /// The types of the values that must be checked against rules other than `types`.
    var checked = TypeSet.all
    /// Whether the schema is `false`, so that it rejects every value.
    var isFalse = false
    /// `enum` and `const`.
    var values = PoolRange()
    var object = RuleIndex.none
    var array = RuleIndex.none
    var string = RuleIndex.none
    var number = RuleIndex.none
    var applicators = PoolRange()
    var unevaluatedProperties = RuleIndex.none
    var unevaluatedItems = RuleIndex.none
    /// The index of the schema resource that the schema belongs to.
    var resource: Int32 = 0

    /// Whether the schema accepts every value.
    var isTrue: Bool { types == .all && checked.isEmpty }

    /// Computes `checked`. All other properties must be set before.
    mutating func finish() {
        if isFalse { types = [] }
        checked = []
        if !object.isNone || !unevaluatedProperties.isNone { checked.insert(.object) }
        if !array.isNone || !unevaluatedItems.isNone { checked.insert(.array) }
        if !string.isNone { checked.insert(.string) }
        if !number.isNone { checked.insert(.number) }
        if !values.isEmpty || !applicators.isEmpty { checked = .all }
    }
}

/// A keyword that applies subschemas to the same value as the schema with the keyword.
struct Applicator: Sendable {
    enum Kind: UInt8, Sendable {
        case reference, dynamicReference, allOf, anyOf, oneOf, not, conditional
    }

    var kind: Kind
    /// The nodes. A conditional has three: `if`, `then`, `else`.
    var nodes: PoolRange
    /// For a dynamic reference: the index of its targets in `SchemaProgram.dynamicTargets`.
    var table = RuleIndex.none
}

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
