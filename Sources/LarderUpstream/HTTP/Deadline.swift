internal import Synchronization

/// Watches over one request: the time it may take, and the silences in it.
///
/// The HTTP client has a deadline of its own, but it ends with the head of the answer, and its idle limit is the same
/// for all requests.
final class Deadline: Sendable {
    /// Which limit was passed.
    enum Expiry: Sendable, Hashable {
        /// The first look-up of the host's name.
        case unresolved
        case idle
        /// Less came than this rate asks for, and whether that is the one of ``FetchTimeouts/slowestWhileAwaited``.
        case slow(TransferRate, isAwaited: Bool)
        case whole
    }

    private struct State {
        var end: Duration?
        /// Whether anything was waited for but a name.
        var hasProgressed = false
        /// When something came last; nil while nobody waits for anything.
        var silentSince: Duration? = .zero
        /// Whether the body comes, and with it a window of ``FetchTimeouts/slowest``: how much of it was waited, and what
        /// came in it.
        var isReading = false
        var waited = Duration.zero
        var bytes = 0

        mutating func wait(until now: Duration, then next: Duration?) {
            if let silentSince { waited += now - silentSince }
            silentSince = next
        }
    }

    private let idle: Duration
    private let slowest: TransferRate?
    private let slowestWhileAwaited: TransferRate?
    private let isAwaited: @Sendable () -> Bool
    private let elapsed: @Sendable () -> Duration
    private let sleep: @Sendable (Duration) async throws -> Void
    private let state: Mutex<State>

    /// - Parameter isAwaited: whether other requests wait for the end of this one. It must not block
    init(
        _ timeouts: FetchTimeouts, clock: some Clock<Duration> = ContinuousClock(),
        isAwaited: @escaping @Sendable () -> Bool = { false }
    ) {
        let start = clock.now
        idle = timeouts.idle
        slowest = timeouts.slowest
        slowestWhileAwaited = timeouts.slowestWhileAwaited
        self.isAwaited = isAwaited
        elapsed = { start.duration(to: clock.now) }
        sleep = { try await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
        state = Mutex(State(end: timeouts.whole))
    }

    /// Notes that something came, or that waiting for it begins.
    func progressed() {
        let now = elapsed()
        state.withLock { state in
            state.hasProgressed = true
            state.wait(until: now, then: now)
        }
    }

    /// Stops the clocks until the next ``progressed()``: the origin is not what takes time.
    func paused() {
        let now = elapsed()
        state.withLock { $0.wait(until: now, then: nil) }
    }

    /// Notes that bytes of the body came, and that the caller waits for more.
    ///
    /// - Parameter bytes: the bytes that count towards the rate
    func received(_ bytes: Int) {
        let now = elapsed()
        state.withLock { state in
            state.wait(until: now, then: now)
            state.bytes += bytes
            guard let slowest, state.waited >= slowest.window, let (floor, _) = floor, state.bytes >= floor.bytes else {
                return
            }
            (state.waited, state.bytes) = (.zero, 0)
        }
    }

    /// The rate that counts now.
    private var floor: (rate: TransferRate, isAwaited: Bool)? {
        guard let slowest else { return nil }
        if let slowestWhileAwaited, isAwaited() { return (slowestWhileAwaited, true) }
        return (slowest, false)
    }

    /// Notes that the head came: from now on the origin has to be as fast as ``FetchTimeouts/slowest`` says. As in
    /// ``paused()`` nothing is waited for yet: room for the body may have to be made first.
    func bodyBegins() {
        state.withLock { ($0.isReading, $0.silentSince, $0.waited, $0.bytes) = (true, nil, .zero, 0) }
    }

    /// Lets the request go on for so long from now, or without an end, as long as it is not silent.
    func allow(_ duration: Duration?) {
        let end = duration.map { elapsed() + $0 }
        state.withLock { $0.end = end }
    }

    /// Returns when a limit has passed, or nothing when cancelled before.
    func expiry() async -> Expiry? {
        while true {
            let state = state.withLock { $0 }
            let now = elapsed()
            if let end = state.end, now >= end { return .whole }
            let idleEnd = (state.silentSince ?? now) + idle
            if now >= idleEnd { return state.hasProgressed ? .idle : .unresolved }
            var next = min(state.end ?? idleEnd, idleEnd)
            if let slowest, let (floor, isAwaited) = floor {
                // Nothing wakes this task when the body begins or the rate changes, so it checks once in a window.
                next = min(next, now + slowest.window)
                if state.isReading, state.bytes < floor.bytes {
                    let left = slowest.window - state.waited - (now - (state.silentSince ?? now))
                    // While nothing is awaited, it is not the origin that takes its time.
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
