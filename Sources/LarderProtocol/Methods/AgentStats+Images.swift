extension AgentStats {
    /// The counters of the image cache, since the start unless they say `now`.
    public struct Images: CounterGroups, Hashable {
        /// Requests answered with what was held.
        public var hits = 0
        /// Requests that something was fetched for.
        public var misses = 0
        /// Requests that waited for what was being fetched for another one.
        public var joined = 0
        /// Times that an origin said that what is held is current.
        public var revalidations = 0
        /// Requests answered with a stale image.
        public var staleAnswers = 0
        /// Requests that ended with an error other than that nothing is held.
        public var failures = 0
        /// Images removed to make room.
        public var evictions = 0
        /// Bytes received from origins.
        public var downloadedBytes = 0
        /// Images held now.
        public var entries = 0
        /// Disk space of their files and directories now, in bytes; identical files count once.
        public var bytes = 0
        /// Disk space of the index now, in bytes.
        public var indexBytes = 0
        /// Bytes now reserved for what is being fetched.
        public var reservedBytes = 0
        /// Bytes now of files that are no longer held and stay for a lease.
        public var leasedBytes = 0
        /// Images being fetched now.
        public var flights = 0
        /// Images that wait to be fetched now.
        public var queued = 0
        /// The limit of bytes.
        public var maximumBytes = 0
        /// The limit of images.
        public var maximumImages = 0
        public init() {}

        package static let groups: [(name: StaticString?, members: [Member])] = [
            (
                nil,
                [
                    ("hits", \.hits), ("misses", \.misses), ("joined", \.joined), ("revalidations", \.revalidations),
                    ("staleAnswers", \.staleAnswers), ("failures", \.failures), ("evictions", \.evictions),
                    ("downloadedBytes", \.downloadedBytes), ("entries", \.entries), ("bytes", \.bytes),
                    ("indexBytes", \.indexBytes), ("reservedBytes", \.reservedBytes), ("leasedBytes", \.leasedBytes),
                    ("flights", \.flights),
                    ("queued", \.queued),
                ]
            ), ("limits", [("bytes", \.maximumBytes), ("images", \.maximumImages)]),
        ]
    }
}
