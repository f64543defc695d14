import Synchronization

/// A clock for the watcher: short sleeps (the settling of a burst) are over at once, long ones (the poll) when the test
/// says so.
final class WatcherClock: Clock {
    struct Instant: InstantProtocol {
        var offset: Duration
        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private struct State {
        var now = Instant(offset: .zero)
        var sleepers: [Int: (deadline: Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
        var next = 0
    }

    private let state = Mutex(State())
    private let onShortSleep: @Sendable () -> Void
    private let parked: AsyncStream<Void>.Continuation
    /// An element for each long sleep that begins.
    let longSleeps: AsyncStream<Void>

    init(onShortSleep: @escaping @Sendable () -> Void = {}) {
        self.onShortSleep = onShortSleep
        (longSleeps, parked) = AsyncStream.makeStream()
    }

    var now: Instant { state.withLock { $0.now } }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try Task.checkCancellation()
        if now.duration(to: deadline) < .seconds(1) {
            onShortSleep()
            return await Task.yield()
        }
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let isCancelled = state.withLock { state in
                    state.sleepers[id] = (deadline, continuation)
                    return Task.isCancelled
                }
                if isCancelled { cancel(id) }
                parked.yield()
            }
        } onCancel: {
            cancel(id)
        }
    }

    /// Lets time pass, and wakes whoever slept until then.
    func advance(by duration: Duration) {
        let woken = state.withLock { state in
            state.now = state.now.advanced(by: duration)
            let woken = state.sleepers.filter { $0.value.deadline <= state.now }
            for id in woken.keys { state.sleepers[id] = nil }
            return woken.values.map(\.continuation)
        }
        for continuation in woken { continuation.resume() }
    }

    private func cancel(_ id: Int) {
        state.withLock { $0.sleepers.removeValue(forKey: id) }?.continuation.resume(throwing: CancellationError())
    }
}
