import Synchronization

/// A clock that goes on when a test says so.
final class SteppedClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let time = Mutex(Duration.zero)
    private let sleepers = Mutex(0)

    var now: Instant { Instant(offset: time.withLock { $0 }) }
    var minimumResolution: Duration { .nanoseconds(1) }

    /// Looks again and again: a test has few sleepers, and they are woken in no particular order.
    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        sleepers.withLock { $0 += 1 }
        defer { sleepers.withLock { $0 -= 1 } }
        while now < deadline {
            try Task.checkCancellation()
            await Task.yield()
        }
        try Task.checkCancellation()
    }

    /// Moves the time on, and lets others run.
    func advance(by duration: Duration) async {
        time.withLock { $0 += duration }
        await Task.yield()
    }

    /// Returns once at least this many tasks sleep.
    func waitForSleepers(_ count: Int) async {
        while sleepers.withLock({ $0 }) < count { await Task.yield() }
    }
}
