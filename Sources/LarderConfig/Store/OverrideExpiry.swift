import LarderConfigModel
import LarderEncoding
import LarderPlatform

/// Computes when overrides expire, and keeps the timer for the next one. The store sets the timer.
struct OverrideExpiry {
    private static let maxStale = 64
    private static let pauseAfterFailure = Duration.seconds(60)

    private var queue = ExpiryQueue()
    private var hasChanged = false
    private var timer: (next: ExpiryQueue.Moment, task: Task<Void, Never>)?
    /// When to retry the removal of expired overrides; nil unless the last attempt failed.
    private(set) var retry: ExpiryQueue.Moment?
    let time: ExpiryTime

    init(_ overrides: OverrideLayer, _ clocks: StoreClocks) {
        time = ExpiryTime(clocks)
        queue.rebuild(from: overrides, now: time.now)
    }

    /// The number of queued overrides.
    var count: Int { queue.count }
    /// The time for which the timer is set; nil without a timer.
    var armedFor: ExpiryQueue.Moment? { timer?.next }

    var now: ExpiryQueue.Moment { time.now }

    /// Queues the overrides that a batch has added.
    mutating func note(_ batch: ChangeBatch, in overrides: OverrideLayer) {
        if batch.restoresOverrides {
            queue.rebuild(from: overrides, now: now)
            hasChanged = true
        }
        if batch.newExpiries.isEmpty { return }
        for override in batch.newExpiries { queue.insert(override, now: now) }
        if queue.count > 2 * overrides.expiring + Self.maxStale { queue.rebuild(from: overrides, now: now) }
        hasChanged = true
    }

    /// Whether the timer may have to be set, because overrides were queued since the last call.
    mutating func takeChange() -> Bool {
        defer { hasChanged = false }
        return hasChanged
    }

    /// Returns the time for which to set the timer: when the next override expires or, after a failure, the next
    /// attempt. Cancels a timer that is set for any other time.
    /// - Returns: nil if no timer is needed, or if the timer is already set for this time
    mutating func next(in overrides: OverrideLayer, isStopping: Bool) -> ExpiryQueue.Moment? {
        queue.dropStale(comparedTo: overrides)
        let next = isStopping ? nil : queue.next.map { retry ?? $0 }
        if next == timer?.next { return nil }
        timer?.task.cancel()
        timer = nil
        return next
    }

    mutating func set(_ task: Task<Void, Never>, for next: ExpiryQueue.Moment) { timer = (next, task) }

    /// Records that the timer has fired.
    mutating func timerEnded() {
        timer = nil
        retry = nil
    }

    /// Removes and returns the overrides that have expired.
    mutating func popExpired(at now: ExpiryQueue.Moment) -> [ExpiringOverride] { queue.popExpired(at: now) }

    /// Queues expired overrides again, because they could not be removed.
    mutating func restore(_ expired: [ExpiringOverride], at now: ExpiryQueue.Moment, in overrides: OverrideLayer) {
        for override in expired { queue.insert(override, uptime: now.uptime) }
        // An override has an entry for the time of day and one for the uptime. If it had expired by only one of these
        // clocks, only the entry for that clock was removed, and the other entry now exists twice. The rebuild corrects
        // this.
        queue.rebuild(from: overrides, now: now)
    }

    /// Postpones the next attempt after a failure.
    mutating func postpone() { retry = now.advanced(by: Self.pauseAfterFailure) }
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
