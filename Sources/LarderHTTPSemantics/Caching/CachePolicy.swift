/// Which of the cache and the network a request prefers.
package enum CachePolicy: String, Sendable, Hashable, CaseIterable {
    /// HTTP's rules (RFC 9111, RFC 5861).
    case `default`
    /// Whatever is held, however old; the network only for what is not.
    case cacheFirst
    /// The network, and what is held when it is out of order.
    case networkFirst
    /// What is held, or nothing.
    case cacheOnly
    /// The network, even for what is held and fresh, and without a condition.
    case networkOnly
    /// Whatever is held at once, while the network is asked behind it.
    case staleWhileRevalidate
}

/// How a request wants to be answered.
package struct CacheRequest: Sendable, Hashable {
    /// Cache or network.
    package var policy: CachePolicy
    /// The oldest image that will do, in seconds; it is validated when it is older, whatever else would allow it.
    package var maximumAge: Int?

    /// Makes a request.
    package init(policy: CachePolicy = .default, maximumAge: Int? = nil) {
        self.policy = policy
        self.maximumAge = maximumAge
    }
}

/// What to do with a request.
package enum CacheDecision: Sendable, Hashable {
    /// Answer with what is held: it is fresh.
    case fresh
    /// Answer with what is held although it is stale, and perhaps ask the origin behind it.
    case stale(revalidateInBackground: Bool)
    /// Ask the origin whether what is held is still current (``StoredResponse/validator``), then answer.
    case revalidate
    /// Fetch it.
    case fetch
    /// Answer that it is not held; the network is not wanted.
    case notHeld
}
