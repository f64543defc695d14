/// How long the redirects that led to a response may be reused.
package struct RedirectFreshness: Sendable, Hashable {
    /// The time in seconds since 1970 from which the redirects must be requested again; nil if they set no limit.
    package private(set) var end: Int?
    /// The shortest lifetime that one of the redirects specifies, in seconds from its arrival; nil if none does.
    private var shortestLifetime: Int?
    /// Whether a redirect must be requested again each time, because its status is 302, 303 or 307 and it specifies no
    /// lifetime.
    private var isRequestedEachTime = false

    package init() {}

    /// Adds the next redirect. A 301 or 308 without explicit freshness sets no limit.
    package mutating func add(_ redirect: StoredResponse) {
        let lifetime = redirect.variant.matchesNothing ? 0 : ResponseFreshness.explicitLifetime(of: redirect)
        if let lifetime {
            shortestLifetime = min(shortestLifetime ?? lifetime, lifetime)
        } else if redirect.status == 301 || redirect.status == 308 {
            return
        } else {
            isRequestedEachTime = true
        }
        end = min(end ?? .max, redirect.responseTime + (lifetime ?? 0))
    }

    /// How long a failure at the end of the redirects may be remembered, in seconds; nil if the responses do not
    /// specify it.
    ///
    /// - Parameter lifetime: the lifetime that the last response specifies, in seconds; nil if it specifies no lifetime
    package func lifetime(ofFailure lifetime: Int?) -> Int? {
        let shortest = [lifetime, shortestLifetime].compactMap(\.self).min()
        return isRequestedEachTime && shortest != 0 ? nil : shortest
    }
}
