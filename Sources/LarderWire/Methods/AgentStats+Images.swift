import JSON

extension AgentStats {
    /// The counters of the image cache, since the start unless they say `now`.
    public struct Images: Sendable, Hashable {
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
        /// Bytes of their files now; identical ones count once.
        public var bytes = 0
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
        /// Makes them, all zero.
        public init() {}

        init(from reader: MemberReader) throws(WireError) {
            hits = try reader.requiredInt("hits")
            misses = try reader.requiredInt("misses")
            joined = try reader.requiredInt("joined")
            revalidations = try reader.requiredInt("revalidations")
            staleAnswers = try reader.requiredInt("staleAnswers")
            failures = try reader.requiredInt("failures")
            evictions = try reader.requiredInt("evictions")
            downloadedBytes = try reader.requiredInt("downloadedBytes")
            entries = try reader.requiredInt("entries")
            bytes = try reader.requiredInt("bytes")
            reservedBytes = try reader.requiredInt("reservedBytes")
            leasedBytes = try reader.requiredInt("leasedBytes")
            flights = try reader.requiredInt("flights")
            queued = try reader.requiredInt("queued")
            let limits = try MemberReader(object: reader.requiredValue("limits"))
            maximumBytes = try limits.requiredInt("bytes")
            maximumImages = try limits.requiredInt("images")
        }

        func write(to writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("hits", hits)
            writer.member("misses", misses)
            writer.member("joined", joined)
            writer.member("revalidations", revalidations)
            writer.member("staleAnswers", staleAnswers)
            writer.member("failures", failures)
            writer.member("evictions", evictions)
            writer.member("downloadedBytes", downloadedBytes)
            writer.member("entries", entries)
            writer.member("bytes", bytes)
            writer.member("reservedBytes", reservedBytes)
            writer.member("leasedBytes", leasedBytes)
            writer.member("flights", flights)
            writer.member("queued", queued)
            writer.name("limits")
            writer.beginObject()
            writer.member("bytes", maximumBytes)
            writer.member("images", maximumImages)
            writer.endObject()
            writer.endObject()
        }
    }
}
