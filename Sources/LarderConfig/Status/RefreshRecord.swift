import LarderConfigModel

/// The results of the refreshes and pushes of a namespace's remote layer. Times are milliseconds since 1970.
struct RefreshRecord: Sendable {
    /// Why the last refresh failed; nil after a success.
    private(set) var lastError: ConfigStatusReport.Problem?
    /// The last refused document; nil once another document is accepted.
    private(set) var refused: ConfigStatusReport.Refusal?
    private(set) var quarantine: ConfigStatusReport.Quarantine?
    /// The latest time at which the document was current, as the last successful refresh has shown; nil before the
    /// first one.
    private(set) var confirmedAt: Int?
    private(set) var lastAttemptAt: Int?
    private(set) var lastSuccessAt: Int?
    private(set) var consecutiveFailures = 0
    /// Whether there was a remote document when the last refresh failed.
    private(set) var isHolding = false
    private(set) var counters = ConfigStatusReport.Counters()

    mutating func began(now: Int) {
        lastAttemptAt = now
        counters.attempted += 1
    }

    /// - Parameter isLongPoll: whether the request was a long poll. Its response may arrive long after the request, and
    ///   shows that the document is current when the response arrives.
    /// - Parameter followFailure: why the source sends no later changes; nil if it does
    mutating func succeeded(changed: Bool, isLongPoll: Bool, followFailure: ConfigError? = nil, now: Int) {
        lastSuccessAt = now
        confirmedAt = isLongPoll ? now : lastAttemptAt
        consecutiveFailures = 0
        lastError = followFailure.map { ConfigStatusReport.Problem(error: $0, at: now) }
        if changed { counters.changed += 1 } else { counters.notModified += 1 }
        accepted()
    }

    mutating func failed(_ error: ConfigError, isHolding: Bool, now: Int) {
        lastError = ConfigStatusReport.Problem(error: error, at: now)
        consecutiveFailures += 1
        self.isHolding = isHolding
        counters.failed += 1
    }

    mutating func accepted() {
        refused = nil
        quarantine = nil
    }

    mutating func refused(_ version: UpstreamVersion?, _ error: ConfigError, now: Int) {
        refused = ConfigStatusReport.Refusal(
            version: version?.text, reason: error.message, canForce: error.canForce, at: now)
        if let deletion = error.deletion {
            quarantine = ConfigStatusReport.Quarantine(version: version?.text, deletion: deletion, at: now)
        }
    }

    /// Resets the results, because the source was replaced. The counters and the time of the last attempt stay.
    mutating func sourceChanged() {
        accepted()
        lastError = nil
        lastSuccessAt = nil
        confirmedAt = nil
        consecutiveFailures = 0
    }
}
