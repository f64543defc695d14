/// How far a prefetch has come.
public struct PrefetchProgress: Sendable, Hashable {
    /// Images that are held now.
    public var done = 0
    /// Images that could not be had.
    public var failed = 0
    /// Bytes of the images that were fetched.
    public var bytes = 0
    /// Images that were asked for.
    public let total: Int
}

/// What a prefetch came to. Where it was cancelled, the figures together are less than ``total``.
public struct PrefetchSummary: Sendable, Hashable {
    /// One image that could not be had.
    public struct Failure: Sendable, Hashable {
        /// Which of the requests, counted from 0.
        public let index: Int
        public let error: ImageError
    }

    /// Images that were asked for.
    public let total: Int
    /// Images that were fetched.
    public var fetched = 0
    /// Images that were held already.
    public var held = 0
    /// Bytes of the images that were fetched.
    public var bytes = 0
    /// Those that could not be had, in the order of the requests.
    public var failures: [Failure] = []
}
