/// The integers that every reader of JSON knows exactly.
enum ExactIntegers {
    /// What a revision or a sequence number can be.
    static let range = 0..<(1 << 53)
}
