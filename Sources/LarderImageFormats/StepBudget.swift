/// The steps that a parser may still take. Each byte of its input allows two.
///
/// A step is one call of a parser, or one read of a ``ByteReader``. The budget therefore also ends loops that consume no
/// input, such as a loop over a count that the input declares.
struct StepBudget: Sendable {
    static let stepsPerByte = 2

    /// The number of steps taken so far.
    private(set) var taken = 0
    private var limit = 0

    /// Adds the steps that `count` bytes of input allow.
    mutating func receive(_ count: Int) { limit += Self.stepsPerByte * count }

    /// Takes a step. Returns false if no step is left.
    mutating func take() -> Bool {
        guard taken < limit else { return false }
        taken += 1
        return true
    }
}
