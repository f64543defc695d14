/// How a request combines the cache and the network.
package enum CachePolicy: String, Sendable, Hashable, CaseIterable {
    /// Follows HTTP's rules (RFC 9111, RFC 5861).
    case `default`
    /// Uses the cached response, however stale, and fetches only if no response is cached.
    case cacheFirst
    /// Contacts the origin, and uses the cached response if the request fails. A fresh `immutable` response is used
    /// without contacting the origin.
    case networkFirst
    /// Uses the cached response, however stale, and never contacts the origin.
    case cacheOnly
    /// Sends an unconditional request, even if a fresh response is cached.
    case networkOnly
    /// Uses the cached response at once, and revalidates a stale one in the background. A response with `no-cache`, and
    /// a stale one with `must-revalidate`, is validated before use.
    case staleWhileRevalidate
}

/// The cache directives of a client's request.
package struct CacheRequest: Sendable, Hashable {
    package var policy: CachePolicy
    /// The maximum age in seconds of a response that may be used without validation. This maximum also applies to
    /// responses that are still fresh. Nil for no limit.
    package var maximumAge: Int?

    package init(policy: CachePolicy = .default, maximumAge: Int? = nil) {
        self.policy = policy
        self.maximumAge = maximumAge
    }
}

/// The result of applying the caching rules to a request.
package enum CacheDecision: Sendable, Hashable {
    /// Answer with the cached response, which is fresh.
    case fresh
    /// Answer with the cached response although it is stale or requires validation. If `revalidateInBackground` is
    /// true, also revalidate it in the background.
    case stale(revalidateInBackground: Bool)
    /// Validate the cached response with the origin (``StoredResponse/validator``), then answer.
    case revalidate
    /// Fetch the response from the origin.
    case fetch
    /// Answer that no usable response is cached. The policy forbids contacting the origin.
    case notHeld
}
