/// The properties of a cached response on which a ``CacheDecision`` depends.
package struct StoredCandidate: Sendable, Hashable {
    package let freshness: ResponseFreshness
    /// Whether the response's ``Variant`` matches the request.
    package let matchesVariant: Bool

    package init(freshness: ResponseFreshness, matchesVariant: Bool = true) {
        self.freshness = freshness
        self.matchesVariant = matchesVariant
    }
}

extension CacheRequest {
    /// Decides how to answer the request, without recording the reasons.
    ///
    /// - Parameters:
    ///   - cached: the cached response, if any
    ///   - now: the time in seconds since 1970
    package func decide(_ cached: StoredCandidate?, now: Int) -> CacheDecision {
        var noTrace: CacheTrace?
        return decide(cached, now: now, explaining: &noTrace)
    }

    /// Decides how to answer the request, and records the rules that led to the decision.
    ///
    /// - Parameters:
    ///   - response: the cached response, if any
    ///   - matchesVariant: whether the response's variant matches the request
    ///   - now: the time in seconds since 1970
    package func explain(
        _ response: StoredResponse?, matchesVariant: Bool = true, now: Int
    ) -> (CacheDecision, CacheTrace) {
        var explanation: CacheTrace? = CacheTrace()
        let cached = response.map {
            StoredCandidate(
                freshness: ResponseFreshness($0, explaining: &explanation), matchesVariant: matchesVariant)
        }
        let decision = decide(cached, now: now, explaining: &explanation)
        return (decision, explanation ?? CacheTrace())
    }

    /// Whether the cached response may answer the request after a request to the origin failed.
    package func mayBeStale(_ cached: StoredCandidate, now: Int) -> Bool {
        let freshness = cached.freshness
        guard policy != .networkOnly, cached.matchesVariant, isYoungEnough(freshness, now),
            !freshness.requiresValidation
        else { return false }
        let remaining = freshness.remaining(at: now)
        if remaining > 0 { return true }
        // With `must-revalidate` a stale response must not be used, even if the origin is unreachable (RFC 9111,
        // section 5.2.2.2).
        guard !freshness.mustRevalidate else { return false }
        switch policy {
        // A client that sets a policy other than `default` and `networkOnly` prefers a stale image to none.
        case .cacheFirst, .cacheOnly, .networkFirst, .staleWhileRevalidate: return true
        case .default: return -remaining <= freshness.staleIfError && freshness.staleIfError > 0
        case .networkOnly: return false
        }
    }

    private func isYoungEnough(_ freshness: ResponseFreshness, _ now: Int) -> Bool {
        maximumAge.map { freshness.age(at: now) <= $0 && !freshness.isFromFuture(at: now) } ?? true
    }

    private func decide(_ cached: StoredCandidate?, now: Int, explaining explanation: inout CacheTrace?)
        -> CacheDecision
    {
        explanation.note("policy", policy.rawValue)
        guard let cached else {
            explanation.note("cached", "nothing")
            return policy == .cacheOnly ? .notCached : .fetch
        }
        guard policy != .networkOnly else {
            explanation.note("networkOnly", "the cached image is ignored")
            return .fetch
        }
        let freshness = cached.freshness
        guard cached.matchesVariant else {
            explanation.note(
                "vary", "the cached image is for a request with different values of the fields that Vary names")
            if policy == .cacheOnly { return .notCached }
            // The origin may confirm (304) that this variant, named by its entity tag, answers the request (RFC 9111,
            // section 4.3.1).
            return freshness.hasTag ? .revalidate : .fetch
        }
        let age = freshness.age(at: now)
        let remaining = freshness.remaining(at: now)
        explanation.note(
            "age", "\(age) s: \(freshness.initialAge) s on arrival, \(age - freshness.initialAge) s since then")
        if freshness.isFromFuture(at: now) {
            explanation.note(
                "clock", "the clock was set back after the response had arrived, so its age is unknown and it is stale")
        }
        explanation.note(
            "freshness",
            remaining > 0
                ? "fresh for another \(remaining) s" : "stale by \(-remaining) s (lifetime \(freshness.lifetime) s)")
        if freshness.requiresValidation { explanation.note("no-cache", "each use requires a validation") }
        if let maximumAge {
            explanation.note(
                "maximumAge",
                "\(age) s of age, \(maximumAge) s allowed: \(age <= maximumAge ? "young enough" : "too old")")
        }
        let toOrigin: CacheDecision = freshness.hasValidator ? .revalidate : .fetch
        guard isYoungEnough(freshness, now) else { return policy == .cacheOnly ? .notCached : toOrigin }
        let isUsable = remaining > 0 && !freshness.requiresValidation
        switch policy {
        case .cacheOnly, .cacheFirst:
            return isUsable ? .fresh : .stale(revalidateInBackground: false)
        case .networkFirst:
            guard isUsable, freshness.isImmutable else { return toOrigin }
            explanation.note("immutable", "a fresh image is used without a validation (RFC 8246)")
            return .fresh
        case .default, .staleWhileRevalidate:
            if isUsable { return .fresh }
            return mayAnswerMeanwhile(freshness, staleness: -remaining, &explanation)
                ? .stale(revalidateInBackground: true) : toOrigin
        case .networkOnly:
            return .fetch
        }
    }

    /// Whether a stale response may be used while it is revalidated in the background.
    private func mayAnswerMeanwhile(
        _ freshness: ResponseFreshness, staleness: Int, _ explanation: inout CacheTrace?
    ) -> Bool {
        if freshness.requiresValidation { return false }
        if freshness.mustRevalidate {
            explanation.note("must-revalidate", "a stale image is not used without a validation")
            return false
        }
        if policy == .staleWhileRevalidate { return true }
        let window = freshness.staleWhileRevalidate
        guard window > 0 else { return false }
        explanation.note(
            "stale-while-revalidate",
            "stale by \(staleness) s, \(window) s allowed: \(staleness <= window ? "used" : "too stale")")
        return staleness <= window
    }
}

/// Explains a decision: lists the rules in the order in which they were applied, with the numbers that they compared.
package struct CacheTrace: Sendable, Hashable {
    package struct Rule: Sendable, Hashable {
        /// A short, stable identifier of the rule.
        package let name: String
        /// The result of applying the rule, for people to read.
        package let text: String
    }

    package private(set) var rules: [Rule] = []

    fileprivate mutating func add(_ name: String, _ text: String) { rules.append(Rule(name: name, text: text)) }
}

extension CacheTrace? {
    /// Adds a rule. If `self` is nil, does nothing and does not evaluate `text`.
    package mutating func note(_ name: String, _ text: @autoclosure () -> String) {
        guard self != nil else { return }
        self?.add(name, text())
    }
}

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
    case notCached
}
