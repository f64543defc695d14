internal import Synchronization

/// Watches over one request: the time it may take, and the silences in it.
///
/// The HTTP client has a deadline of its own, but it ends with the head of the answer, and its idle limit is the same
/// for all requests.
final class Deadline: Sendable {
    /// Which limit was passed.
    enum Expiry: Sendable {
        /// The first look-up of the host's name.
        case unresolved
        case idle
        case slow
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
    private let elapsed: @Sendable () -> Duration
    private let sleep: @Sendable (Duration) async throws -> Void
    private let state: Mutex<State>

    init(_ timeouts: FetchTimeouts, clock: some Clock<Duration> = ContinuousClock()) {
        let start = clock.now
        idle = timeouts.idle
        slowest = timeouts.slowest
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

    /// Notes that so many bytes came, and that nothing is waited for until the next ``progressed()``: the silence meanwhile
    /// is our own.
    func paused(received bytes: Int = 0) {
        let now = elapsed()
        state.withLock { state in
            state.wait(until: now, then: nil)
            state.bytes += bytes
            guard let slowest, state.waited >= slowest.window, state.bytes >= slowest.bytes else { return }
            (state.waited, state.bytes) = (.zero, 0)
        }
    }

    /// Notes that the head came: from now on the origin has to be as fast as ``FetchTimeouts/slowest`` says. As in
    /// ``paused(received:)`` nothing is waited for yet: room for the body may have to be made first.
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
            if let slowest {
                // It is looked at once in a window at least: nobody wakes us when the body begins.
                next = min(next, now + slowest.window)
                if state.isReading, state.bytes < slowest.bytes {
                    let left = slowest.window - state.waited - (now - (state.silentSince ?? now))
                    // While nobody waits, it is not the origin that takes its time; soon somebody will.
                    if left <= .zero, state.silentSince != nil { return .slow }
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
