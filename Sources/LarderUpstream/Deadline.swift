internal import Synchronization

/// Watches over one request: the whole time it may take, and the silences in it.
///
/// The HTTP client has a deadline of its own, but it ends with the head of the answer, and its idle limit is the same
/// for all requests.
final class Deadline: Sendable {
    /// Which limit was passed.
    enum Expiry: Sendable {
        case idle
        case whole
    }

    private let timeouts: FetchTimeouts
    private let end: ContinuousClock.Instant
    private let lastProgress: Mutex<ContinuousClock.Instant>

    init(_ timeouts: FetchTimeouts) {
        let now = ContinuousClock.now
        self.timeouts = timeouts
        end = now + timeouts.whole
        lastProgress = Mutex(now)
    }

    /// Notes that something came.
    func progressed() {
        let now = ContinuousClock.now
        lastProgress.withLock { $0 = now }
    }

    /// Returns when a limit has passed, or nothing when cancelled before.
    func expiry() async -> Expiry? {
        while true {
            let idleEnd = lastProgress.withLock { $0 } + timeouts.idle
            let now = ContinuousClock.now
            if now >= end { return .whole }
            if now >= idleEnd { return .idle }
            do {
                try await Task.sleep(until: min(end, idleEnd), clock: .continuous)
            } catch {
                return nil
            }
        }
    }
}
