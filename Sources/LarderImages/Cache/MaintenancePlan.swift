/// Decides which maintenance is due in a period of ``ImageMaintenance``.
struct MaintenancePlan: Sendable {
    /// One hour, as a period lasts ten seconds. Sweeps find files that other programs added or removed.
    private static let periodsBetweenSweeps = 360

    /// Whether there may be images that were fetched with credentials that are no longer in the settings.
    var needsCredentialCheck = true
    /// Whether files without a row may exist.
    var needsSweep = true
    /// Whether a cache in an older layout may exist.
    var hasOutdated = true
    /// The schedule for copying the index.
    var copies: IndexCopySchedule
    private var periods = 0

    /// - Parameter lastCopy: when the index was last copied, in seconds since 1970; nil if there is no copy
    init(lastCopy: Int?) { copies = IndexCopySchedule(last: lastCopy) }

    /// Ends a period.
    ///
    /// - Returns: whether a sweep is due
    mutating func endPeriod() -> Bool {
        periods += 1
        return needsSweep || periods.isMultiple(of: Self.periodsBetweenSweeps)
    }
}
