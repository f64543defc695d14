import Synchronization

/// A clock that stands still until a test advances it.
package final class ManualClock: Clock {
    package struct Instant: InstantProtocol {
        package var offset: Duration
        package func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        package func duration(to other: Instant) -> Duration { other.offset - offset }
        package static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct Sleeper {
        var deadline: Instant
        var continuation: CheckedContinuation<Void, any Error>
    }

    private struct State {
        var now = Instant(offset: .zero)
        var nextID = 0
        var sleepers: [Int: Sleeper] = [:]
        var waiters: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []

        mutating func takeWaiters() -> [CheckedContinuation<Void, Never>] {
            let ready = waiters.filter { $0.count <= sleepers.count }.map(\.continuation)
            waiters.removeAll { $0.count <= sleepers.count }
            return ready
        }
    }

    private let state = Mutex(State())
    private let minSleep: Duration
    private let onSkippedSleep: @Sendable () -> Void

    /// - Parameters:
    ///   - minSleep: shorter sleeps end immediately and do not advance the clock
    ///   - onSkippedSleep: called for each sleep shorter than `minSleep`
    package init(
        skippingSleepsBelow minSleep: Duration = .zero, onSkippedSleep: @escaping @Sendable () -> Void = {}
    ) {
        self.minSleep = minSleep
        self.onSkippedSleep = onSkippedSleep
    }

    package var now: Instant { state.withLock { $0.now } }
    package var minimumResolution: Duration { .nanoseconds(1) }

    package func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        if now.duration(to: deadline) < minSleep {
            try Task.checkCancellation()
            onSkippedSleep()
            return await Task.yield()
        }
        let id = state.withLock { state in
            state.nextID += 1
            return state.nextID
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                let (isDue, woken) = state.withLock { state in
                    if deadline <= state.now || Task.isCancelled { return (true, state.takeWaiters()) }
                    state.sleepers[id] = Sleeper(deadline: deadline, continuation: continuation)
                    return (false, state.takeWaiters())
                }
                if isDue {
                    continuation.resume(with: Task.isCancelled ? .failure(CancellationError()) : .success(()))
                }
                for waiter in woken { waiter.resume() }
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: id) }?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Advances the clock and wakes the sleepers that are due, in the order of their deadlines.
    package func advance(by duration: Duration) {
        let due = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let due = state.sleepers.filter { $0.value.deadline <= state.now }
            for id in due.keys { state.sleepers[id] = nil }
            return due.sorted { ($0.value.deadline, $0.key) < ($1.value.deadline, $1.key) }
        }
        for sleeper in due { sleeper.value.continuation.resume() }
    }

    /// The earliest deadline of the sleepers.
    package var nextDeadline: Instant? { state.withLock { $0.sleepers.values.map(\.deadline).min() } }

    /// The deadlines of the sleepers, in no particular order.
    package var deadlines: [Instant] { state.withLock { $0.sleepers.values.map(\.deadline) } }

    /// Returns when at least `count` tasks sleep.
    package func waitForSleepers(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                if state.sleepers.count >= count { return true }
                state.waiters.append((count, continuation))
                return false
            }
            if isReached { continuation.resume() }
        }
    }
}

/// A clock whose sleeps end immediately. Each sleep advances the clock to its deadline.
package final class ImmediateClock: Clock {
    package typealias Instant = ManualClock.Instant

    private let state = Mutex<(now: Duration, sleeps: [Duration])>((.zero, []))

    package init() {}

    package var now: Instant { Instant(offset: state.withLock(\.now)) }
    package var minimumResolution: Duration { .nanoseconds(1) }
    /// The durations of all sleeps.
    package var sleeps: [Duration] { state.withLock(\.sleeps) }

    package func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        state.withLock { state in
            state.sleeps.append(deadline.offset - state.now)
            state.now = max(state.now, deadline.offset)
        }
        await Task.yield()
        try Task.checkCancellation()
    }
}
