internal import LarderUpstream

/// Whether and when a download is tried again: three times in all, for what may pass by itself.
///
/// A connection that ended and a status that speaks of the moment may; a silence only if the body can be taken up where it
/// ended, or each try would take as long again. An origin that cannot be reached at all is not tried again: whoever waits
/// learns soon that there is no network, and has what is held.
struct RetryPolicy: Sendable {
    private static let most = 3
    /// A longer `Retry-After` ends the download; it is the caller's to remember.
    private static let longestRetryAfter = Duration.seconds(10)

    private var made = 1
    private var backoff = Backoff(
        floor: .milliseconds(250), base: .seconds(1), cap: .seconds(4), retryAfterCap: longestRetryAfter)

    /// How long to wait before the next attempt, or nothing if there is none.
    ///
    /// - Parameters:
    ///   - error: what the last one ended with
    ///   - canResume: whether a part of the body is there that can be taken up
    mutating func wait(after error: UpstreamError, canResume: Bool) -> Duration? {
        guard made < Self.most, Self.mayPass(error, canResume), (error.retryAfter ?? .zero) <= Self.longestRetryAfter
        else { return nil }
        made += 1
        var generator = SystemRandomNumberGenerator()
        return backoff.next(retryAfter: error.retryAfter, using: &generator)
    }

    /// Whether there is another attempt, without a wait: what the origin said did not fit what we had.
    mutating func mayRestart() -> Bool {
        made += 1
        return made <= Self.most
    }

    private static func mayPass(_ error: UpstreamError, _ canResume: Bool) -> Bool {
        switch error.code {
        case .connectionClosed, .truncated, .other: true
        case .status: error.isRetryable
        case .timeout: canResume
        default: false
        }
    }
}
