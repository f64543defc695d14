internal import LarderUpstream

/// Whether and when a download is retried after a temporary failure. It makes three attempts at most.
///
/// A broken connection and a status such as 503 are temporary. A timeout is only if the body can be resumed, since another
/// attempt would take as long. An unreachable origin is not tried again, so that waiting requests soon get the cached image.
struct RetryPolicy: Sendable {
    private static let maxAttempts = 3
    /// A longer `Retry-After` ends the download; the caller applies it to later requests.
    private static let longestRetryAfter = Duration.seconds(10)

    private var attempts = 1
    private var backoff = Backoff(
        floor: .milliseconds(250), base: .seconds(1), cap: .seconds(4), retryAfterCap: longestRetryAfter)

    /// The wait before the next attempt; nil if there is none.
    ///
    /// - Parameters:
    ///   - error: the error of the last attempt
    ///   - canResume: whether the download has a part of the body that can be resumed
    mutating func wait(after error: UpstreamError, canResume: Bool) -> Duration? {
        guard attempts < Self.maxAttempts, Self.isTemporary(error, canResume),
            (error.retryAfter ?? .zero) <= Self.longestRetryAfter
        else { return nil }
        attempts += 1
        var generator = SystemRandomNumberGenerator()
        return backoff.next(retryAfter: error.retryAfter, using: &generator)
    }

    /// Whether there is another attempt, without a wait, after a response that does not fit the cached image or the part.
    mutating func mayRestart() -> Bool {
        attempts += 1
        return attempts <= Self.maxAttempts
    }

    private static func isTemporary(_ error: UpstreamError, _ canResume: Bool) -> Bool {
        switch error.code {
        case .connectionClosed, .truncated, .other: true
        case .status: error.isRetryable
        case .timeout: canResume
        default: false
        }
    }
}
