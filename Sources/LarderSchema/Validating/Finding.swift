@_spi(LarderSchema) import LarderJSON

/// A step from a value to a value in it.
enum PathStep {
    case name(ValueCursor)
    case index(Int)
}

/// A violation during validation. Its message is written later, because most findings are dropped.
struct Finding {
    var node: Int
    var keyword: Keyword
    /// The value, or the name for violations of `propertyNames`.
    var value: ValueCursor
    var path: [PathStep]
    /// Its meaning depends on the keyword.
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
    /// The first 64, which are all of most values.
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
