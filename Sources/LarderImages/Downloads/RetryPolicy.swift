internal import LarderUpstream

/// Decides whether and when to retry a download after a temporary failure. A download has at most three attempts.
///
/// Broken connections and statuses such as 503 are temporary. A timeout is temporary only if the body can be resumed,
/// because a complete attempt would take as long again. Failed connection attempts are not retried, so that waiting
/// requests soon get a stale cached image.
struct RetryPolicy: Sendable {
    private static let maxAttempts = 3
    /// A longer `Retry-After` ends the download, and the ``NegativeCache`` applies it to later requests.
    private static let maxRetryAfter = Duration.seconds(10)

    private var attempts = 1
    private var backoff = Backoff(
        floor: .milliseconds(250), base: .seconds(1), cap: .seconds(4), retryAfterCap: maxRetryAfter)

    /// Returns the delay before the next attempt; nil if the download must not be retried.
    ///
    /// - Parameters:
    ///   - error: the error of the last attempt
    ///   - canResume: whether part of the body has been received and can be resumed
    mutating func wait(after error: UpstreamError, canResume: Bool) -> Duration? {
        guard attempts < Self.maxAttempts, Self.isTemporary(error, canResume),
            (error.retryAfter ?? .zero) <= Self.maxRetryAfter
        else { return nil }
        attempts += 1
        var generator = SystemRandomNumberGenerator()
        return backoff.next(retryAfter: error.retryAfter, using: &generator)
    }

    /// Whether another attempt may follow at once, after a response that does not match the cached image or the partial
    /// download.
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
