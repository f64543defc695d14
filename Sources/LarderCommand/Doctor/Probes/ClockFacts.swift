import CLinuxShims

/// What the kernel says of its clock.
struct ClockFacts: Sendable, Equatable {
    /// Whether something keeps it right; nil where the kernel does not say.
    var isSynchronized: Bool?

    /// Asks the kernel (adjtimex(2)).
    static var now: ClockFacts {
        let answer = larder_clock_is_synchronized()
        return ClockFacts(isSynchronized: answer < 0 ? nil : answer == 1)
    }
}
