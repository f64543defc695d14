public import LarderClientCore
import Synchronization

/// A clock that stands still until the test advances it. A ``TestAgent`` and its clients measure all times with it:
/// lifetimes of overrides, leases and cached images, timeouts of calls, and delays between attempts to connect.
///
/// ```swift
/// let agent = try await TestAgent(["search": ["limit": 10]])
/// try await agent.client().config.set(25, at: "search.limit", ttl: .seconds(60))
/// agent.clock.advance(by: .seconds(60))  // the override expires
/// ```
///
/// The time of day starts at 2026-01-01 00:00:00 UTC.
public final class TestClock: Clock, Sendable {
    /// A time on the clock.
    public struct Instant: InstantProtocol {
        /// The time since the creation of the clock.
        public var offset: Duration

        /// Creates the time that is `offset` later than the creation of the clock.
        public init(offset: Duration) { self.offset = offset }

        /// Returns the time that is later by `duration`.
        public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        /// Returns the time from this instant to `other`; negative if `other` is earlier.
        public func duration(to other: Instant) -> Duration { other.offset - offset }
        /// Whether `left` is earlier than `right`.
        public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct Waiter {
        let sleepers: Int
        /// Gets true when the number is reached.
        let wait: AsyncStream<Bool>.Continuation
    }

    private struct State {
        var now = Instant(offset: .zero)
        var queue = TimerTable()
        var waiters: [Waiter] = []

        /// Removes and returns the waiters whose number of sleepers is reached.
        mutating func takeWaiters() -> [Waiter] {
            let ready = waiters.filter { $0.sleepers <= queue.sleepers }
            waiters.removeAll { $0.sleepers <= queue.sleepers }
            return ready
        }
    }

    /// 2026-01-01 00:00:00 UTC, in milliseconds since 1970.
    private static let start = 1_767_225_600_000

    private let state = Mutex(State())

    /// The time on the clock of the machine after which a wait of a test fails by default: 60 s.
    public static let waitLimit = Duration.seconds(60)

    /// Creates a clock at the offset zero.
    public init() {}

    // A promise of SwiftNIO must be completed before it is released.
    deinit {
        for timer in state.withLock({ $0.queue.takeAll() }) { timer.end(false) }
    }

    /// The current time.
    public var now: Instant { state.withLock { $0.now } }

    /// The smallest difference between two times: a nanosecond.
    public var minimumResolution: Duration { .nanoseconds(1) }

    /// The time of day, in milliseconds since 1970-01-01 00:00:00 UTC.
    public var millisecondsSince1970: Int {
        let (seconds, attoseconds) = now.offset.components
        return Self.start + Int(seconds) * 1000 + Int(attoseconds / 1_000_000_000_000_000)
    }

    /// Waits until the clock reaches a time.
    /// - Throws: `CancellationError` if the task is cancelled first.
    public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        try await sleep(until: deadline, countsAsSleeper: true)
    }

    /// Advances the clock, and wakes the tasks whose sleep has ended, in the order of their deadlines. It does not wait
    /// for these tasks.
    /// - Parameter duration: the time to add. It must not be negative.
    public func advance(by duration: Duration) {
        precondition(duration >= .zero, "a clock cannot be set back")
        let due = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            return state.queue.takeDue(at: state.now)
        }
        for timer in due { timer.end(true) }
    }

    /// Waits until at least `count` tasks sleep on the clock.
    ///
    /// Tasks of the test and clients that wait before another attempt to connect count. The agent's own timers and the
    /// timeouts of calls do not count.
    ///
    /// ```swift
    /// agent.faults.isUnreachable = true
    /// await agent.disconnect()
    /// try await agent.clock.waitForSleepers()  // a stream of snapshots waits before it reconnects
    /// agent.faults.isUnreachable = false
    /// agent.clock.advance(by: .seconds(10))
    /// ```
    /// - Parameters:
    ///   - count: the number of tasks.
    ///   - limit: the maximum time on the clock of the machine.
    /// - Throws: `timeout` if fewer tasks sleep when the limit has passed; `cancelled` if the task is cancelled.
    public func waitForSleepers(
        _ count: Int = 1, within limit: Duration = TestClock.waitLimit
    ) async throws(LarderClientError) {
        try await waitForEvent(within: limit) {
            LarderClientError(
                .timeout,
                "the number of tasks that sleep on the test clock is \(state.withLock { $0.queue.sleepers }), "
                    + "not \(count), after \(limit)",
                advice: "cause the sleep first, for example with agent.disconnect() while a stream is followed")
        } register: { wait in
            state.withLock { state in
                if state.queue.sleepers >= count { return true }
                state.waiters.append(Waiter(sleepers: count, wait: wait))
                return false
            }
        }
    }

    /// Advice for a test that may have forgotten to advance the clock; nil if no task sleeps on it.
    var hint: String? {
        let (now, sleepers, next) = state.withLock { ($0.now, $0.queue.sleepers, $0.queue.nextWake) }
        guard let next else { return nil }
        return "the test clock stands still at \(now.offset), and \(sleepers) "
            + "\(sleepers == 1 ? "task sleeps" : "tasks sleep") on it, the first one until \(next.offset): "
            + "call agent.clock.advance(by:)"
    }

    func sleep(until deadline: Instant, countsAsSleeper: Bool) async throws {
        let id = state.withLock { $0.queue.newID() }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let timer = TimerTable.Timer(deadline: deadline, isSleeper: countsAsSleeper) { isDue in
                    continuation.resume(with: isDue ? .success(()) : .failure(CancellationError()))
                }
                add(timer, id)
                // If the task was cancelled before the timer was added, the cancellation handler did not find it.
                if Task.isCancelled { cancel(id) }
            }
        } onCancel: {
            cancel(id)
        }
    }

    /// Sets a timer.
    /// - Parameters:
    ///   - owner: the object whose timers ``cancelAll(of:)`` cancels
    ///   - end: called once: with true when the clock reaches the deadline, with false if the timer is cancelled
    /// - Returns: the ID for ``cancel(_:)``
    func schedule(at deadline: Instant, for owner: AnyObject, _ end: @escaping @Sendable (Bool) -> Void) -> Int {
        let id = state.withLock { $0.queue.newID() }
        add(TimerTable.Timer(deadline: deadline, owner: ObjectIdentifier(owner), end: end), id)
        return id
    }

    /// Cancels a timer. Has no effect on a timer that has ended.
    func cancel(_ id: Int) {
        state.withLock { $0.queue.remove(id) }?.end(false)
    }

    /// Cancels all timers of an object.
    func cancelAll(of owner: AnyObject) {
        for timer in state.withLock({ $0.queue.takeAll(of: ObjectIdentifier(owner)) }) { timer.end(false) }
    }

    private func add(_ timer: TimerTable.Timer, _ id: Int) {
        let (isDue, waiters) = state.withLock { state -> (Bool, [Waiter]) in
            if timer.deadline <= state.now { return (true, []) }
            state.queue.add(timer, id)
            return (false, state.takeWaiters())
        }
        if isDue { timer.end(true) }
        for waiter in waiters { waiter.wait.yield(true) }
    }
}

/// The timers of a ``TestClock``.
struct TimerTable {
    struct Timer: Sendable {
        let deadline: TestClock.Instant
        /// Whether ``TestClock/waitForSleepers(_:)`` counts it.
        var isSleeper = false
        /// The object that set the timer; nil for the sleep of a task.
        var owner: ObjectIdentifier?
        /// Called once, outside the lock of the clock: with true at the deadline, with false if the timer is cancelled.
        let end: @Sendable (Bool) -> Void
    }

    private var timers: [Int: Timer] = [:]
    private var lastID = 0
    /// The number of timers that ``TestClock/waitForSleepers(_:)`` counts.
    var sleepers: Int { timers.values.count(where: \.isSleeper) }
    /// The time at which the first of these timers ends; nil without one.
    var nextWake: TestClock.Instant? { timers.values.filter(\.isSleeper).map(\.deadline).min() }

    mutating func newID() -> Int {
        lastID += 1
        return lastID
    }

    mutating func add(_ timer: Timer, _ id: Int) { timers[id] = timer }

    mutating func remove(_ id: Int) -> Timer? { timers.removeValue(forKey: id) }

    /// Removes and returns the timers of an object; nil for all timers.
    mutating func takeAll(of owner: ObjectIdentifier? = nil) -> [Timer] {
        let own = timers.filter { owner == nil || $0.value.owner == owner }
        for id in own.keys { _ = remove(id) }
        return Array(own.values)
    }

    /// Removes and returns the timers that are due, in the order of their deadlines. Timers with the same deadline are
    /// in the order of their IDs.
    mutating func takeDue(at now: TestClock.Instant) -> [Timer] {
        let due = timers.filter { $0.value.deadline <= now }
        for id in due.keys { _ = remove(id) }
        return due.sorted { ($0.value.deadline, $0.key) < ($1.value.deadline, $1.key) }.map(\.value)
    }
}

/// The clock as the agent itself uses it. ``TestClock/waitForSleepers(_:)`` does not count its sleeps.
struct AgentClock: Clock {
    let clock: TestClock

    var now: TestClock.Instant { clock.now }
    var minimumResolution: Duration { clock.minimumResolution }

    func sleep(until deadline: TestClock.Instant, tolerance: Duration?) async throws {
        try await clock.sleep(until: deadline, countsAsSleeper: false)
    }
}
