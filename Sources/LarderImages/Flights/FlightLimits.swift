/// How many downloads may run at once.
public struct FlightLimits: Sendable, Hashable {
    /// All together, at least 1.
    public let total: Int
    /// From one origin (scheme, host and port), at least 1.
    public let perOrigin: Int

    /// Makes limits; 16, and 6 from one origin, unless told otherwise. Less than 1 counts as 1.
    public init(total: Int = 16, perOrigin: Int = 6) {
        self.total = max(1, total)
        self.perOrigin = max(1, perOrigin)
    }

    /// A prefetch starts only while fewer than this run, of whatever kind, so that four places stay free for those that
    /// somebody waits for. Where there are no more than four, it starts while nothing runs.
    var prefetches: Int { max(1, total - 4) }

    /// The same for one origin, where two places stay free.
    var prefetchesPerOrigin: Int { max(1, perOrigin - 2) }
}
