@_spi(LarderSchema) import LarderJSON

/// A step from an object or array to a member or element of it.
enum PathStep {
    case name(ValueCursor)
    case index(Int)
}

/// A violation during validation. The message is written only if the violation is reported, because most findings are
/// not.
struct Finding {
    var node: Int
    var keyword: Keyword
    /// The invalid value; for violations of `propertyNames` the invalid name.
    var value: ValueCursor
    var path: [PathStep]
    /// A number or an index, or two indexes in one integer, for the message. The meaning depends on the keyword.
    var detail = 0
    /// Set if the validation stopped because of a limit.
    var limit: ValidationLimit?
}

/// The reasons to stop a validation.
enum ValidationLimit {
    case depth, steps, pattern
}

/// The members or elements of one value that have been evaluated, for `unevaluatedProperties` and `unevaluatedItems`.
struct Evaluated {
    /// A bit for each of the first 64 members or elements. Most values do not have more.
    private var first: UInt64 = 0
    private var others: [UInt64]

    init(count: Int) { others = count > 64 ? Array(repeating: 0, count: (count - 1) / 64) : [] }

    mutating func mark(_ position: Int) {
        let bit: UInt64 = 1 << UInt64(position & 63)
        if position < 64 { first |= bit } else { others[position >> 6 - 1] |= bit }
    }

    func contains(_ position: Int) -> Bool {
        let word = position < 64 ? first : others[position >> 6 - 1]
        return word & 1 << UInt64(position & 63) != 0
    }

    mutating func formUnion(_ other: Evaluated) {
        first |= other.first
        for index in others.indices { others[index] |= other.others[index] }
    }
}
