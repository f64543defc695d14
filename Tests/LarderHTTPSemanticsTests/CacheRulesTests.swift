import LarderHTTPSemantics
import Testing

@Suite("Cache decisions")
struct CacheRulesTests {
    private static let tagged = [("ETag", "\"1\""), ("Cache-Control", "max-age=60")]

    private func decide(
        _ policy: CachePolicy, _ fields: [(String, String)]?, after seconds: Int = 0, maximumAge: Int? = nil,
        matchesVariant: Bool = true
    ) -> CacheDecision {
        let candidate = fields.map { StoredCandidate(freshness: freshness($0), matchesVariant: matchesVariant) }
        let request = CacheRequest(policy: policy, maximumAge: maximumAge)
        let decision = request.decide(candidate, now: now + seconds)
        let (explained, explanation) = request.explain(
            fields.map { response($0) }, matchesVariant: matchesVariant, now: now + seconds)
        #expect(explained == decision)
        #expect(explanation.rules.contains { $0.name == "policy" && $0.text == policy.rawValue })
        return decision
    }

    private func control(_ text: String, _ others: (String, String)...) -> [(String, String)] {
        [("Cache-Control", text), ("ETag", "\"1\"")] + others
    }

    @Test("an image that is not cached is fetched, unless the policy is cacheOnly", arguments: CachePolicy.allCases)
    func notCached(_ policy: CachePolicy) {
        #expect(decide(policy, nil) == (policy == .cacheOnly ? .notCached : .fetch))
    }

    @Test("an image from the future is revalidated, and is too old for any maximum age")
    func future() {
        #expect(decide(.default, Self.tagged, after: -1) == .revalidate)
        #expect(decide(.cacheFirst, Self.tagged, after: -1) == .stale(revalidateInBackground: false))
        #expect(decide(.cacheFirst, Self.tagged, after: -1, maximumAge: 100) == .revalidate)
        #expect(decide(.cacheOnly, Self.tagged, after: -1, maximumAge: 100) == .notCached)
        #expect(decide(.default, control("max-age=60, immutable"), after: -7200) == .revalidate)
    }

    @Test("a fresh image is a hit, unless the policy is networkFirst or networkOnly")
    func fresh() {
        for policy in CachePolicy.allCases {
            let expected: CacheDecision =
                switch policy {
                case .networkFirst: .revalidate
                case .networkOnly: .fetch
                default: .fresh
                }
            #expect(decide(policy, Self.tagged, after: 59) == expected, "\(policy)")
        }
        #expect(decide(.networkFirst, control("max-age=60, immutable"), after: 59) == .fresh)
        #expect(decide(.networkFirst, control("max-age=60, immutable"), after: 60) == .revalidate)
        #expect(decide(.networkFirst, [("Cache-Control", "max-age=60")]) == .fetch)
    }

    @Test("an image is stale from the end of its lifetime, and the policy decides how it is used")
    func stale() {
        for policy in CachePolicy.allCases {
            let expected: CacheDecision =
                switch policy {
                case .default, .networkFirst: .revalidate
                case .networkOnly: .fetch
                case .cacheFirst, .cacheOnly: .stale(revalidateInBackground: false)
                case .staleWhileRevalidate: .stale(revalidateInBackground: true)
                }
            #expect(decide(policy, Self.tagged, after: 60) == expected, "\(policy)")
        }
        #expect(decide(.default, [("Cache-Control", "max-age=60")], after: 60) == .fetch)
        #expect(decide(.default, [("Last-Modified", date(-1))], after: 0) == .revalidate)
        #expect(decide(.default, [("Last-Modified", date(0))], after: 60) == .fetch)
    }

    @Test("no-cache requires validation, except with cacheFirst and cacheOnly")
    func noCache() {
        let fields = control("no-cache, max-age=60, stale-while-revalidate=60")
        #expect(decide(.default, fields) == .revalidate)
        #expect(decide(.staleWhileRevalidate, fields) == .revalidate)
        #expect(decide(.cacheFirst, fields) == .stale(revalidateInBackground: false))
        #expect(decide(.cacheOnly, fields) == .stale(revalidateInBackground: false))
    }

    @Test("must-revalidate prevents the use of a stale image during revalidation")
    func mustRevalidate() {
        let fields = control("max-age=60, must-revalidate, stale-while-revalidate=60")
        #expect(decide(.default, fields, after: 59) == .fresh)
        #expect(decide(.default, fields, after: 61) == .revalidate)
        #expect(decide(.staleWhileRevalidate, fields, after: 61) == .revalidate)
    }

    @Test("the period of stale-while-revalidate begins when the lifetime ends")
    func staleWhileRevalidate() {
        let fields = control("max-age=60, stale-while-revalidate=30")
        #expect(decide(.default, fields, after: 60) == .stale(revalidateInBackground: true))
        #expect(decide(.default, fields, after: 90) == .stale(revalidateInBackground: true))
        #expect(decide(.default, fields, after: 91) == .revalidate)
        #expect(decide(.staleWhileRevalidate, fields, after: 10_000) == .stale(revalidateInBackground: true))
    }

    @Test("an image older than the requested maximum age is not served under any policy")
    func maximumAge() {
        #expect(decide(.default, Self.tagged, after: 10, maximumAge: 10) == .fresh)
        #expect(decide(.default, Self.tagged, after: 11, maximumAge: 10) == .revalidate)
        #expect(decide(.cacheFirst, Self.tagged, after: 11, maximumAge: 10) == .revalidate)
        #expect(decide(.cacheFirst, Self.tagged, after: 100, maximumAge: 100) == .stale(revalidateInBackground: false))
        #expect(decide(.cacheOnly, Self.tagged, after: 11, maximumAge: 10) == .notCached)
        #expect(decide(.staleWhileRevalidate, Self.tagged, after: 11, maximumAge: 10) == .revalidate)
        #expect(decide(.networkFirst, control("max-age=60, immutable"), after: 11, maximumAge: 10) == .revalidate)
        #expect(decide(.default, Self.tagged, after: 61, maximumAge: 1_000) == .revalidate)
        #expect(decide(.default, [("Age", "20")] + Self.tagged, maximumAge: 10) == .revalidate)
    }

    @Test("an image of another variant is never served, but its entity tag may be used for revalidation")
    func variants() {
        #expect(decide(.default, Self.tagged, matchesVariant: false) == .revalidate)
        #expect(decide(.cacheFirst, [("Last-Modified", date(-9))], matchesVariant: false) == .fetch)
        #expect(decide(.cacheOnly, Self.tagged, matchesVariant: false) == .notCached)
        #expect(decide(.networkOnly, Self.tagged, matchesVariant: false) == .fetch)
    }

    // MARK: After a failure

    private func answers(
        _ policy: CachePolicy, _ control: String, after seconds: Int, maximumAge: Int? = nil,
        matchesVariant: Bool = true
    ) -> Bool {
        let candidate = StoredCandidate(
            freshness: freshness([("Cache-Control", control)]), matchesVariant: matchesVariant)
        return CacheRequest(policy: policy, maximumAge: maximumAge).mayBeStale(candidate, now: now + seconds)
    }

    @Test("with the default policy, a stale image is served after a failure only within the period of stale-if-error")
    func ifError() {
        #expect(answers(.default, "max-age=60, stale-if-error=30", after: 90))
        #expect(!answers(.default, "max-age=60, stale-if-error=30", after: 91))
        #expect(!answers(.default, "max-age=60", after: 60))
        #expect(!answers(.default, "max-age=60, stale-if-error=30, must-revalidate", after: 61))
        #expect(!answers(.default, "no-cache, stale-if-error=30", after: 0))
        #expect(!answers(.default, "max-age=60, stale-if-error=30", after: 61, matchesVariant: false))
        #expect(!answers(.default, "max-age=60, stale-if-error=30", after: 61, maximumAge: 60))
    }

    @Test("after a failure, networkFirst serves a cached image of any age unless the origin or the request forbids it")
    func networkFirst() {
        #expect(answers(.networkFirst, "max-age=60", after: 5_000))
        #expect(answers(.networkFirst, "max-age=60, must-revalidate", after: 59))
        #expect(!answers(.networkFirst, "max-age=60, must-revalidate", after: 60))
        #expect(!answers(.networkFirst, "no-cache", after: 0))
        #expect(!answers(.networkFirst, "max-age=60", after: 5_000, maximumAge: 4_000))
        #expect(!answers(.networkOnly, "max-age=60, stale-if-error=30", after: 1))
    }

    // MARK: Explanation

    @Test("the explanation lists each rule with its numbers")
    func explanation() {
        let stored = response(
            [("Date", date(-20)), ("Age", "10"), ("Cache-Control", "max-age=60, stale-while-revalidate=30")],
            requestTime: now - 3)
        let (decision, explanation) = CacheRequest(maximumAge: 500).explain(stored, now: now + 45)
        #expect(decision == .stale(revalidateInBackground: true))
        #expect(
            explanation.rules.map { "\($0.name): \($0.text)" } == [
                "initialAge: 20 s on arrival: the larger of 20 s (by Date) and 10 s (Age) + 3 s (request time)",
                "lifetime: 60 s by Cache-Control: max-age",
                "policy: default",
                "age: 65 s: 20 s on arrival, 45 s since then",
                "freshness: stale by 5 s (lifetime 60 s)",
                "maximumAge: 65 s of age, 500 s allowed: young enough",
                "stale-while-revalidate: stale by 5 s, 30 s allowed: used",
            ])
    }

    @Test("the explanation reports a heuristic lifetime, or that no image is cached")
    func guess() {
        let stored = response([("Last-Modified", date(-1000))])
        let (_, explanation) = CacheRequest().explain(stored, now: now)
        #expect(explanation.rules.contains { $0.text.hasPrefix("100 s by heuristic: a tenth of the 1000 s") })
        let (_, absent) = CacheRequest().explain(nil, now: now)
        #expect(absent.rules.map(\.name) == ["policy", "cached"])
    }
}
