/// What is held for a request, as far as deciding goes.
package struct StoredCandidate: Sendable, Hashable {
    /// How long it is good.
    package let freshness: ResponseFreshness
    /// Whether its ``Variant`` is that of the request.
    package let matchesVariant: Bool

    /// Makes a description.
    package init(freshness: ResponseFreshness, matchesVariant: Bool = true) {
        self.freshness = freshness
        self.matchesVariant = matchesVariant
    }
}

extension CacheRequest {
    /// Decides, without an explanation.
    ///
    /// - Parameters:
    ///   - held: what is held, if anything
    ///   - now: the time in seconds since 1970
    package func decide(_ held: StoredCandidate?, now: Int) -> CacheDecision {
        var nobody: CacheTrace?
        return decide(held, now: now, explaining: &nobody)
    }

    /// Decides and says why.
    ///
    /// - Parameters:
    ///   - response: what is held, if anything
    ///   - matchesVariant: whether its variant is that of the request
    ///   - now: the time in seconds since 1970
    package func explain(
        _ response: StoredResponse?, matchesVariant: Bool = true, now: Int
    ) -> (CacheDecision, CacheTrace) {
        var explanation: CacheTrace? = CacheTrace()
        let held = response.map {
            StoredCandidate(
                freshness: ResponseFreshness($0, explaining: &explanation), matchesVariant: matchesVariant)
        }
        let decision = decide(held, now: now, explaining: &explanation)
        return (decision, explanation ?? CacheTrace())
    }

    /// Whether what is held answers a request although it could not be fetched, for a reason that allows a stale answer.
    package func mayBeStale(_ held: StoredCandidate, now: Int) -> Bool {
        let freshness = held.freshness
        guard policy != .networkOnly, held.matchesVariant, isYoungEnough(freshness, now),
            !freshness.requiresValidation
        else { return false }
        let remaining = freshness.remaining(at: now)
        if remaining > 0 { return true }
        // RFC 9111, section 5.2.2.2: then an error, even without a network.
        guard !freshness.mustRevalidate else { return false }
        switch policy {
        // Who asks so has said that an old image is better than none.
        case .cacheFirst, .cacheOnly, .networkFirst, .staleWhileRevalidate: return true
        case .default: return -remaining <= freshness.staleIfError && freshness.staleIfError > 0
        case .networkOnly: return false
        }
    }

    private func isYoungEnough(_ freshness: ResponseFreshness, _ now: Int) -> Bool {
        maximumAge.map { freshness.age(at: now) <= $0 } ?? true
    }

    private func decide(_ held: StoredCandidate?, now: Int, explaining explanation: inout CacheTrace?) -> CacheDecision
    {
        explanation.note("policy", policy.rawValue)
        guard let held else {
            explanation.note("held", "nothing")
            return policy == .cacheOnly ? .notHeld : .fetch
        }
        guard policy != .networkOnly else {
            explanation.note("networkOnly", "what is held is not looked at")
            return .fetch
        }
        let freshness = held.freshness
        guard held.matchesVariant else {
            explanation.note("vary", "what is held answers a request with other fields, as its Vary says")
            if policy == .cacheOnly { return .notHeld }
            // Its entity tag may still be what the origin would answer with (RFC 9111, section 4.3.1).
            return freshness.hasTag ? .revalidate : .fetch
        }
        let age = freshness.age(at: now)
        let remaining = freshness.lifetime - age
        explanation.note(
            "age", "\(age) s: \(freshness.initialAge) s when it came, \(age - freshness.initialAge) s since")
        explanation.note(
            "freshness",
            remaining > 0
                ? "fresh for another \(remaining) s" : "stale by \(-remaining) s (lifetime \(freshness.lifetime) s)")
        if freshness.requiresValidation { explanation.note("no-cache", "each use needs a validation") }
        if let maximumAge {
            explanation.note(
                "maximumAge", "\(age) s of age, \(maximumAge) s asked for: \(age <= maximumAge ? "good" : "too old")")
        }
        let toOrigin: CacheDecision = freshness.hasValidator ? .revalidate : .fetch
        guard isYoungEnough(freshness, now) else { return policy == .cacheOnly ? .notHeld : toOrigin }
        let isUsable = remaining > 0 && !freshness.requiresValidation
        switch policy {
        case .cacheOnly, .cacheFirst:
            return isUsable ? .fresh : .stale(revalidateInBackground: false)
        case .networkFirst:
            guard isUsable, freshness.isImmutable else { return toOrigin }
            explanation.note("immutable", "it cannot have changed while it is fresh (RFC 8246)")
            return .fresh
        case .default, .staleWhileRevalidate:
            if isUsable { return .fresh }
            return mayAnswerMeanwhile(freshness, staleness: -remaining, &explanation)
                ? .stale(revalidateInBackground: true) : toOrigin
        case .networkOnly:
            return .fetch
        }
    }

    /// Whether a stale response may be used while the origin is asked.
    private func mayAnswerMeanwhile(
        _ freshness: ResponseFreshness, staleness: Int, _ explanation: inout CacheTrace?
    ) -> Bool {
        if freshness.requiresValidation { return false }
        if freshness.mustRevalidate {
            explanation.note("must-revalidate", "once stale it is not used without a validation")
            return false
        }
        if policy == .staleWhileRevalidate { return true }
        let window = freshness.staleWhileRevalidate
        guard window > 0 else { return false }
        explanation.note(
            "stale-while-revalidate",
            "stale by \(staleness) s of \(window) s allowed: \(staleness <= window ? "used" : "too late")")
        return staleness <= window
    }
}

/// Why a request is a hit or not: each rule that was looked at, with its numbers, in order.
package struct CacheTrace: Sendable, Hashable {
    /// One rule.
    package struct Rule: Sendable, Hashable {
        /// Which rule: a short, stable word.
        package let name: String
        /// What it came to, for people.
        package let text: String
    }

    /// The rules, in the order that they were looked at.
    package private(set) var rules: [Rule] = []

    /// Makes an empty one.
    package init() {}

    fileprivate mutating func add(_ name: String, _ text: String) { rules.append(Rule(name: name, text: text)) }
}

extension CacheTrace? {
    /// Adds a rule. Where nobody wants an explanation no text is made.
    package mutating func note(_ name: String, _ text: @autoclosure () -> String) {
        guard self != nil else { return }
        self?.add(name, text())
    }
}
