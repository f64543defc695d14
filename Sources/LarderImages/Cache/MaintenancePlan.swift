/// What the maintenance of the cache has to do in a period.
struct MaintenancePlan: Sendable {
    /// An hour between two searches for files that other programs added or removed.
    private static let periodsBetweenSweeps = 360

    /// Whether there may be images of credentials that are no longer in the settings.
    var needsCredentialCheck = true
    /// Whether there may be files without a row.
    var needsSweep = true
    /// Whether there may be a cache in an older layout to remove.
    var hasOutdated = true
    /// When the index is copied.
    var copies: IndexCopySchedule
    private var periods = 0

    /// - Parameter lastCopy: when the index was copied last, in seconds since 1970
    init(lastCopy: Int?) { copies = IndexCopySchedule(last: lastCopy) }

    /// Ends a period.
    ///
    /// - Returns: whether a sweep is due
    mutating func endPeriod() -> Bool {
        periods += 1
        return needsSweep || periods.isMultiple(of: Self.periodsBetweenSweeps)
    }
}
