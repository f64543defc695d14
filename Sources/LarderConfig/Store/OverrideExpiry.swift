import LarderConfigModel
import LarderEncoding
import LarderPlatform

/// Computes when overrides expire, and keeps the timer for the next one. The store sets the timer.
struct OverrideExpiry {
    private static let maxStale = 64
    private static let pauseAfterFailure = Duration.seconds(60)

    private var queue = ExpiryQueue()
    private var timer: (next: ExpiryQueue.Moment, task: Task<Void, Never>)?
    /// The expired overrides that the last attempt failed to remove.
    private var failed: [ExpiringOverride] = []
    /// When to retry the removal of ``failed``; nil if there is none. Other overrides do not wait for this time.
    private(set) var retry: ExpiryQueue.Moment?
    let time: ExpiryTime

    init(_ overrides: OverrideLayer, _ clocks: StoreClocks) {
        time = ExpiryTime(clocks)
        queue.rebuild(from: overrides, now: time.now)
    }

    /// The number of queued overrides and of those that could not be removed.
    var count: Int { queue.count + failed.count }
    /// The time for which the timer is set; nil without a timer.
    var armedFor: ExpiryQueue.Moment? { timer?.next }

    var now: ExpiryQueue.Moment { time.now }

    /// Queues the overrides that a batch has added. The timer may then have to be set.
    mutating func note(_ batch: ChangeBatch, in overrides: OverrideLayer) {
        if batch.restoresOverrides { rebuild(from: overrides) }
        for override in batch.newExpiries { queue.insert(override, now: now) }
        if queue.count > 2 * overrides.expiring + Self.maxStale { rebuild(from: overrides) }
    }

    /// Queues exactly the overrides of the layer, including those that could not be removed.
    private mutating func rebuild(from overrides: OverrideLayer) {
        queue.rebuild(from: overrides, now: now)
        (failed, retry) = ([], nil)
    }

    /// Returns the time for which to set the timer: when the next override expires or, if that is earlier, the next
    /// attempt after a failure. Cancels a timer that is set for any other time.
    /// - Returns: nil if no timer is needed, or if the timer is already set for this time
    mutating func next(in overrides: OverrideLayer, isStopping: Bool) -> ExpiryQueue.Moment? {
        queue.dropStale(comparedTo: overrides)
        failed.removeAll { overrides.entry(at: $0.path)?.expiresAt != $0.expiresAt }
        if failed.isEmpty { retry = nil }
        let next = isStopping ? nil : queue.next?.earliest(or: retry) ?? retry
        if next == timer?.next { return nil }
        timer?.task.cancel()
        timer = nil
        return next
    }

    /// The earliest time of day at which an override expires, in milliseconds since 1970; nil if none expires. Overrides
    /// that the schema keeps after their expiry do not count.
    mutating func nextExpiry(in overrides: OverrideLayer) -> Int? {
        queue.dropStale(comparedTo: overrides)
        let failed = failed.lazy.filter { overrides.entry(at: $0.path)?.expiresAt == $0.expiresAt }.map(\.expiresAt)
        return [queue.next?.timeOfDay, failed.min()].compactMap(\.self).min()
    }

    mutating func set(_ task: Task<Void, Never>, for next: ExpiryQueue.Moment) { timer = (next, task) }

    /// Records that the timer has fired.
    mutating func timerEnded() { timer = nil }

    /// Removes and returns the overrides that have expired, including those that could not be removed before.
    mutating func popExpired(at now: ExpiryQueue.Moment) -> [ExpiringOverride] {
        defer { (failed, retry) = ([], nil) }
        return failed + queue.popExpired(at: now)
    }

    /// Keeps expired overrides for the next attempt, because they could not be removed.
    mutating func keep(_ expired: [ExpiringOverride]) {
        queue.remove(expired)
        var known: Set<ExpiringOverride> = []
        failed = (failed + expired).filter { known.insert($0).inserted }
        retry = now.advanced(by: Self.pauseAfterFailure)
    }
}

extension ExpiryQueue.Moment {
    /// For each clock, the earlier one of two times.
    fileprivate func earliest(or other: Self?) -> Self {
        guard let other else { return self }
        return Self(timeOfDay: min(timeOfDay, other.timeOfDay), uptime: min(uptime, other.uptime))
    }
}

/// The two clocks by which overrides expire.
struct ExpiryTime: Sendable {
    private let clocks: StoreClocks
    /// The monotonic time since the creation of this value.
    private let uptime: @Sendable () -> Duration
    /// Waits until the uptime has the given value.
    private let alarm: @Sendable (_ uptime: Duration) async throws -> Void

    init(_ clocks: StoreClocks) {
        self.clocks = clocks
        (uptime, alarm) = (clocks.clock.stopwatch(), clocks.clock.alarm())
    }

    var now: ExpiryQueue.Moment {
        ExpiryQueue.Moment(timeOfDay: clocks.wallClock.now, uptime: uptime().milliseconds)
    }

    /// Waits until either clock reaches `moment`.
    /// - Returns: false if the task is cancelled
    func sleep(until moment: ExpiryQueue.Moment) async -> Bool {
        while true {
            let now = now
            let rest = min(moment.timeOfDay - now.timeOfDay, moment.uptime - now.uptime)
            if rest <= 0 { return !Task.isCancelled }
            // The time of day may be set during the sleep, so it is read again every minute.
            do { try await alarm(.milliseconds(now.uptime + min(rest, 60_000))) } catch { return false }
        }
    }
}

/// The clocks of a store.
struct StoreClocks: Sendable {
    var wallClock: WallClock
    var clock: any Clock<Duration>
}
