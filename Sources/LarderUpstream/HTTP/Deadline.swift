internal import LarderPlatform
internal import Synchronization

/// Enforces the time limits of one request: the total time, the longest silence, and the lowest transfer rate.
///
/// The deadline of AsyncHTTPClient covers only the time until the head of the response, and its idle timeout is the
/// same for all requests.
final class Deadline: Sendable {
    /// The limit that was exceeded.
    enum Expiry: Sendable, Hashable {
        /// The idle limit passed before the first address of the host was known.
        case unresolved
        case idle
        /// The body arrived more slowly than this rate. `isAwaited` is true if the rate is
        /// ``FetchTimeouts/slowestWhileAwaited``.
        case slow(TransferRate, isAwaited: Bool)
        case whole
    }

    private struct State {
        var end: Duration?
        /// False while the first lookup of the host name is pending.
        var hasProgressed = false
        /// When the current wait for the origin began; nil while the caller is not waiting for the origin.
        var silentSince: Duration? = .zero
        /// True while the body is received. `waited` and `bytes` then measure the current window of
        /// ``FetchTimeouts/slowest``: the time spent waiting for the origin, and the bytes received.
        var isReading = false
        var waited = Duration.zero
        var bytes = 0

        mutating func wait(until now: Duration, then next: Duration?) {
            if let silentSince { waited += now - silentSince }
            silentSince = next
        }
    }

    private let timeouts: FetchTimeouts
    private let isAwaited: @Sendable () -> Bool
    private let elapsed: @Sendable () -> Duration
    private let sleep: @Sendable (Duration) async throws -> Void
    /// The task that receives the response updates it, and the task that waits for ``expiry()`` reads it.
    private let state: Mutex<State>

    /// - Parameter isAwaited: returns whether other requests wait for this one to end. It must not block.
    init(
        _ timeouts: FetchTimeouts, clock: some Clock<Duration> = ContinuousClock(),
        isAwaited: @escaping @Sendable () -> Bool = { false }
    ) {
        self.timeouts = timeouts
        self.isAwaited = isAwaited
        elapsed = clock.stopwatch()
        sleep = clock.alarm()
        state = Mutex(State(end: timeouts.whole))
    }

    /// Records that data arrived, or that the caller begins to wait for the origin.
    func progressed() {
        let now = elapsed()
        state.withLock { state in
            state.hasProgressed = true
            state.wait(until: now, then: now)
        }
    }

    /// Stops the idle and rate limits until the next ``progressed()``, because the caller is not waiting for the
    /// origin.
    func paused() {
        let now = elapsed()
        state.withLock { $0.wait(until: now, then: nil) }
    }

    /// Records that bytes of the body arrived and that the caller waits for more.
    ///
    /// - Parameter bytes: the number of bytes that count towards the rate
    func received(_ bytes: Int) {
        let now = elapsed()
        state.withLock { state in
            state.wait(until: now, then: now)
            state.bytes += bytes
            guard let slowest = timeouts.slowest, state.waited >= slowest.window, let (floor, _) = floor,
                state.bytes >= floor.bytes
            else {
                return
            }
            (state.waited, state.bytes) = (.zero, 0)
        }
    }

    /// The lowest rate that is allowed now; nil for no limit.
    private var floor: (rate: TransferRate, isAwaited: Bool)? {
        guard let slowest = timeouts.slowest else { return nil }
        if let rate = timeouts.slowestWhileAwaited, isAwaited() { return (rate, true) }
        return (slowest, false)
    }

    /// Records that the head arrived. The limits on the transfer rate apply from now on. As after ``paused()``, the
    /// idle limit starts with the next ``progressed()``, because the caller may first have to free space for the body.
    func bodyBegins() {
        state.withLock { ($0.isReading, $0.silentSince, $0.waited, $0.bytes) = (true, nil, .zero, 0) }
    }

    /// Replaces the limit on the total time: `duration` from now, or no limit if nil. The idle limit stays in effect.
    func allow(_ duration: Duration?) {
        let end = duration.map { elapsed() + $0 }
        state.withLock { $0.end = end }
    }

    /// Waits until a limit is exceeded. Returns nil if the task is cancelled first.
    func expiry() async -> Expiry? {
        while true {
            let state = state.withLock { $0 }
            let now = elapsed()
            if let end = state.end, now >= end { return .whole }
            let idleEnd = (state.silentSince ?? now) + timeouts.idle
            if now >= idleEnd { return state.hasProgressed ? .idle : .unresolved }
            var next = min(state.end ?? idleEnd, idleEnd)
            if let slowest = timeouts.slowest, let (floor, isAwaited) = floor {
                // Nothing wakes this task when the body begins or the rate changes, so the task checks the limits once
                // per window.
                next = min(next, now + slowest.window)
                if state.isReading, state.bytes < floor.bytes {
                    let left = slowest.window - state.waited - (now - (state.silentSince ?? now))
                    // The origin can be too slow only while the caller waits for it.
                    if left <= .zero, state.silentSince != nil { return .slow(floor, isAwaited: isAwaited) }
                    next = min(next, now + (left > .zero ? left : slowest.window / 8))
                }
            }
            do {
                try await sleep(next)
            } catch {
                return nil
            }
        }
    }
}
