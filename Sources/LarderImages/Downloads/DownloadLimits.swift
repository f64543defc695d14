internal import LarderUpstream

/// How many downloads may run at once, and how slow they may be.
package struct DownloadLimits: Sendable, Hashable {
    /// All together, at least 1.
    package let total: Int
    /// From one origin (scheme, host and port), at least 1.
    package let perOrigin: Int
    /// For one user, at least 1.
    package let perUser: Int
    /// The bytes a second below which a download is given up, measured over ten seconds.
    package let minimumRate: Int
    /// The same for a download whose place another user waits for.
    package let minimumRateWhileAwaited: Int

    /// Makes limits. Less than 1 counts as 1.
    ///
    /// - Parameters:
    ///   - total: 16 by default
    ///   - perOrigin: 6 by default
    ///   - perUser: half of `total`, rounded up, by default
    ///   - minimumRate: 1,000 by default
    ///   - minimumRateWhileAwaited: 16,000 by default
    package init(
        total: Int = 16, perOrigin: Int = 6, perUser: Int? = nil, minimumRate: Int = 1000,
        minimumRateWhileAwaited: Int = 16_000
    ) {
        self.total = max(1, total)
        self.perOrigin = max(1, perOrigin)
        self.perUser = max(1, perUser ?? (self.total + 1) / 2)
        self.minimumRate = max(1, minimumRate)
        self.minimumRateWhileAwaited = max(1, minimumRateWhileAwaited)
    }

    var slowest: TransferRate { TransferRate(bytes: minimumRate * 10, in: .seconds(10)) }
    var slowestWhileAwaited: TransferRate { TransferRate(bytes: minimumRateWhileAwaited * 10, in: .seconds(10)) }

    /// One place at each origin is left to other users.
    var perOriginAndUser: Int { max(1, perOrigin - 1) }

    /// A prefetch starts only while fewer downloads than this run, so that four places stay free for downloads that a
    /// request waits for. With four places or fewer, it starts only while no download runs.
    var prefetches: Int { max(1, total - 4) }

    /// The same for one origin, where two places stay free.
    var prefetchesPerOrigin: Int { max(1, perOrigin - 2) }

    /// The same for one user, whose own requests have two places left.
    var prefetchesPerUser: Int { max(1, perUser - 2) }
}
