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

    /// How many of them may be prefetches: what is left when four places stay free for those that somebody waits for, but
    /// one at least, or nothing would ever be prefetched.
    var prefetches: Int { max(1, total - 4) }

    /// How many prefetches may run from one origin: two places stay free, where there are so many.
    var prefetchesPerOrigin: Int { max(1, perOrigin - 2) }
}

/// Which download comes next: the more urgent first, then the one that waits for longest, passing over origins that have as
/// many as they may. It does nothing itself: whoever owns it starts what ``next()`` names and says when that has ended.
struct FlightQueue<ID: Hashable & Sendable>: Sendable {
    private struct Entry {
        let origin: String
        let arrival: Int
        var priority: ImagePriority
        var isRunning = false
    }

    /// The limits. After they were raised, ``next()`` may have something.
    var limits: FlightLimits
    private var entries: [ID: Entry] = [:]
    private var arrivals = 0

    /// How many run.
    private(set) var running = 0
    /// How many wait.
    var queued: Int { entries.count - running }

    /// Makes an empty queue.
    init(limits: FlightLimits = FlightLimits()) { self.limits = limits }

    /// Adds a download at the end of its priority.
    ///
    /// - Parameters:
    ///   - id: what it is called here; must not be in the queue already
    ///   - origin: scheme, host and port of where it begins
    ///   - priority: that of the most urgent of those that wait for it
    mutating func add(_ id: ID, origin: String, priority: ImagePriority) {}

    /// The download to start now, which counts as running from then on; nothing if none may start. Call it until there is
    /// nothing, after each change.
    mutating func next() -> ID? { nil }

    /// Somebody more urgent joins; nothing happens if it is that urgent already or unknown. It keeps its place in time.
    mutating func raise(_ id: ID, _ priority: ImagePriority) {}

    /// The most urgent one left; nothing happens if it is less urgent already or unknown. It keeps its place in time.
    mutating func lower(_ id: ID, _ priority: ImagePriority) {}

    /// Forgets a download that waits.
    ///
    /// - Returns: whether it waited. If not, it runs or is unknown: one that runs keeps its place until ``finish(_:)``
    mutating func cancel(_ id: ID) -> Bool { false }

    /// A download that ran has ended, however it did; its place is free.
    mutating func finish(_ id: ID) {}
}
