internal import LarderUpstream

/// Limits on the number of simultaneous downloads, on their minimum speed, and on the silence of their origins.
package struct DownloadLimits: Sendable, Hashable {
    /// The maximum number of downloads, at least 1.
    package let total: Int
    /// The maximum number of downloads from one origin (scheme, host and port), at least 1.
    package let perOrigin: Int
    /// The maximum number of downloads for one user, at least 1.
    package let perUser: Int
    /// The minimum rate in bytes per second, measured over ten seconds. Slower downloads are aborted.
    package let minimumRate: Int
    /// The minimum rate in bytes per second of a download while another user waits for its slot.
    package let minimumRateWhileAwaited: Int
    /// The longest time in seconds for which an origin may send nothing. Downloads with a longer silence are aborted.
    package let maxSilenceSeconds: Int

    /// Creates limits. Values below 1 count as 1.
    ///
    /// - Parameters:
    ///   - total: 16 by default
    ///   - perOrigin: 6 by default
    ///   - perUser: by default half of `total`, rounded up
    ///   - minimumRate: 1,000 by default
    ///   - minimumRateWhileAwaited: 16,000 by default
    ///   - maxSilenceSeconds: 10 by default
    package init(
        total: Int = 16, perOrigin: Int = 6, perUser: Int? = nil, minimumRate: Int = 1000,
        minimumRateWhileAwaited: Int = 16_000, maxSilenceSeconds: Int = 10
    ) {
        self.total = max(1, total)
        self.perOrigin = max(1, perOrigin)
        self.perUser = max(1, perUser ?? (self.total + 1) / 2)
        self.minimumRate = max(1, minimumRate)
        self.minimumRateWhileAwaited = max(1, minimumRateWhileAwaited)
        self.maxSilenceSeconds = max(1, maxSilenceSeconds)
    }

    var slowest: TransferRate { TransferRate(bytes: minimumRate * 10, in: .seconds(10)) }
    var slowestWhileAwaited: TransferRate { TransferRate(bytes: minimumRateWhileAwaited * 10, in: .seconds(10)) }

    /// The maximum number of downloads of one user from one origin. It leaves one slot of the origin to other users,
    /// unless ``perOrigin`` is 1.
    var perOriginAndUser: Int { max(1, perOrigin - 1) }

    /// A prefetch starts only while fewer downloads than this are running. This leaves four slots for downloads with
    /// waiting requests. If `total` is 5 or less, a prefetch starts only while no download is running.
    var prefetches: Int { max(1, total - 4) }

    /// A prefetch starts only while fewer downloads than this are running from its origin. This leaves two slots of the
    /// origin for downloads with waiting requests. If `perOrigin` is 3 or less, a prefetch starts only while no
    /// download from its origin is running.
    var prefetchesPerOrigin: Int { max(1, perOrigin - 2) }

    /// A prefetch starts only while fewer downloads than this are running for its user. This leaves two slots of the
    /// user for downloads with waiting requests. If `perUser` is 3 or less, a prefetch starts only while no download is
    /// running for its user.
    var prefetchesPerUser: Int { max(1, perUser - 2) }
}
