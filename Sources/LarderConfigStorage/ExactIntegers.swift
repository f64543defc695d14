/// The integers that every JSON reader represents exactly.
enum ExactIntegers {
    /// The valid revisions and sequence numbers.
    static let range = 0..<(1 << 53)
}
