internal import Synchronization

/// Watches over one request: the time it may take, and the silences in it.
///
/// The HTTP client has a deadline of its own, but it ends with the head of the answer, and its idle limit is the same
/// for all requests.
final class Deadline: Sendable {
    /// Which limit was passed.
    enum Expiry: Sendable {
        case idle
        case whole
    }

    private struct State {
        var end: Duration?
        /// When something came last; nil while nobody waits for anything.
        var silentSince: Duration? = .zero
    }

    private let idle: Duration
    private let elapsed: @Sendable () -> Duration
    private let sleep: @Sendable (Duration) async throws -> Void
    private let state: Mutex<State>

    init(_ timeouts: FetchTimeouts, clock: some Clock<Duration> = ContinuousClock()) {
        let start = clock.now
        idle = timeouts.idle
        elapsed = { start.duration(to: clock.now) }
        sleep = { try await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
        state = Mutex(State(end: timeouts.whole))
    }

    /// Notes that something came, or that waiting for it begins.
    func progressed() {
        let now = elapsed()
        state.withLock { $0.silentSince = now }
    }

    /// Notes that something came, and that nothing is waited for until the next ``progressed()``: the silence meanwhile is
    /// our own.
    func paused() { state.withLock { $0.silentSince = nil } }

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
            if now >= idleEnd { return .idle }
            do {
                try await sleep(min(state.end ?? idleEnd, idleEnd))
            } catch {
                return nil
            }
        }
    }
}
