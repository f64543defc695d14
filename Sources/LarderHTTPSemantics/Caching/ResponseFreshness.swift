/// The numbers that determine how long a stored response may be used (RFC 9111, section 4.2), in 32 bytes. A cache hit
/// reads no other metadata of the response.
package struct ResponseFreshness: Sendable, Hashable {
    /// How a freshness lifetime was determined.
    package enum Basis: UInt8, Sendable, Hashable {
        /// `Cache-Control: max-age`.
        case maximumAge
        /// `Expires`.
        case expires
        /// A tenth of the time between `Last-Modified` and `Date`, at most a day.
        case heuristic
        /// No lifetime is known: the response is stale from the start.
        case none
    }

    private struct Flags: OptionSet, Hashable {
        let rawValue: UInt8
        static let requiresValidation = Flags(rawValue: 1)
        static let mustRevalidate = Flags(rawValue: 2)
        static let immutable = Flags(rawValue: 4)
        static let validator = Flags(rawValue: 8)
        static let tag = Flags(rawValue: 16)
    }

    private let time: Int64
    private let shortLifetime: UInt32
    private let shortAge: UInt32
    private let shortRevalidate: UInt32
    private let shortError: UInt32
    private let flags: Flags
    package let basis: Basis

    /// When the response arrived, in seconds since 1970.
    package var responseTime: Int { Int(time) }
    /// The freshness lifetime in seconds, counted from when the origin generated the response.
    package var lifetime: Int { Int(shortLifetime) }
    /// The age on arrival, in seconds (`corrected_initial_age` in RFC 9111).
    package var initialAge: Int { Int(shortAge) }
    /// `stale-while-revalidate` in seconds.
    package var staleWhileRevalidate: Int { Int(shortRevalidate) }
    /// `stale-if-error` in seconds.
    package var staleIfError: Int { Int(shortError) }
    /// Whether each use requires a validation (`no-cache`).
    package var requiresValidation: Bool { flags.contains(.requiresValidation) }
    /// Whether each use requires a validation once the response is stale (`must-revalidate`).
    package var mustRevalidate: Bool { flags.contains(.mustRevalidate) }
    /// Whether the response cannot change while it is fresh (`immutable`).
    package var isImmutable: Bool { flags.contains(.immutable) }
    /// Whether the response has a ``StoredResponse/validator``.
    package var hasValidator: Bool { flags.contains(.validator) }
    package var hasTag: Bool { flags.contains(.tag) }

    /// The maximum of a heuristic lifetime, in seconds: a day.
    package static let maxHeuristic = 86_400

    package init(_ response: StoredResponse) {
        var noTrace: CacheTrace?
        self.init(response, explaining: &noTrace)
    }

    init(_ response: StoredResponse, explaining explanation: inout CacheTrace?) {
        let control = response.cacheControl
        time = Int64(response.responseTime)
        let age = Self.initialAge(response, &explanation)
        let (lifetime, basis) = Self.lifetime(response, control, &explanation)
        self.basis = basis
        shortAge = UInt32(clamping: age)
        func limit(_ end: Int?) -> Int? {
            end.map { age + max(0, Self.difference($0, response.responseTime)) }.flatMap { $0 < lifetime ? $0 : nil }
        }
        let redirectLimit = limit(response.redirectEnd)
        if let redirectLimit { explanation.note("redirect", "\(redirectLimit) s by the redirects to the image") }
        shortLifetime = UInt32(
            clamping: min(redirectLimit ?? lifetime, limit(response.staleSince) ?? lifetime))
        // These directives concern the image. They do not allow the redirects to be used without a request.
        shortRevalidate = UInt32(clamping: redirectLimit == nil ? control.staleWhileRevalidate : 0)
        let isImmutable = control.isImmutable && redirectLimit == nil
        shortError = UInt32(clamping: control.staleIfError)
        var flags: Flags = []
        if control.requiresValidation { flags.insert(.requiresValidation) }
        if control.mustRevalidate { flags.insert(.mustRevalidate) }
        if isImmutable { flags.insert(.immutable) }
        if let validator = response.validator {
            flags.insert(.validator)
            if validator.etag != nil { flags.insert(.tag) }
        }
        self.flags = flags
    }

    /// The encoding in the index, 26 bytes.
    package var bytes: [UInt8] {
        func parts(_ number: some FixedWidthInteger) -> [UInt8] {
            withUnsafeBytes(of: number.littleEndian) { Array($0) }
        }
        return parts(time) + parts(shortLifetime) + parts(shortAge) + parts(shortRevalidate) + parts(shortError)
            + [flags.rawValue, basis.rawValue]
    }

    /// Decodes 26 bytes from the index; nil if they are invalid.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 26, let basis = Basis(rawValue: bytes[25]) else { return nil }
        func short(_ offset: Int) -> UInt32 {
            UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self))
        }
        time = Int64(littleEndian: bytes.loadUnaligned(as: Int64.self))
        (shortLifetime, shortAge, shortRevalidate, shortError) = (short(8), short(12), short(16), short(20))
        flags = Flags(rawValue: bytes[24])
        self.basis = basis
    }

    /// How long the origin allows the response to be reused without validation, in seconds from its arrival. 0 if the
    /// response must not be stored or requires validation each time. Nil if neither `Cache-Control` nor `Expires`
    /// specifies a lifetime. The redirects that led to the response do not count.
    package static func explicitLifetime(of response: StoredResponse) -> Int? {
        var response = response
        response.redirectEnd = nil
        let control = response.cacheControl
        if control.forbidsStoring || control.requiresValidation { return 0 }
        let freshness = ResponseFreshness(response)
        switch freshness.basis {
        case .maximumAge, .expires: return max(0, freshness.lifetime - freshness.initialAge)
        case .heuristic, .none: return nil
        }
    }

    /// Whether the response arrived after `now`, because the clock was set back since. Its age is then unknown.
    package func isFromFuture(at now: Int) -> Bool { responseTime > now }

    /// The age in seconds (`current_age` in RFC 9111). Never less than the age on arrival, even if the clock was set
    /// back.
    package func age(at now: Int) -> Int { initialAge + max(0, Self.difference(now, responseTime)) }

    /// The number of seconds until the response becomes stale. Zero or negative if it is stale already, or if its age is
    /// unknown.
    package func remaining(at now: Int) -> Int {
        let remaining = lifetime - age(at: now)
        return isFromFuture(at: now) ? min(0, remaining) : remaining
    }

    /// The age on arrival, in seconds (RFC 9111, section 4.2.3): the time since `Date`, or `Age` plus the duration of
    /// the request, whichever is larger.
    private static func initialAge(_ response: StoredResponse, _ explanation: inout CacheTrace?) -> Int {
        let delay = max(0, difference(response.responseTime, response.requestTime))
        let date = date("date", response)
        let apparent = max(0, difference(response.responseTime, date ?? response.responseTime))
        // If `Age` is a list, the first member counts; an invalid age is ignored (RFC 9111, section 5.1).
        let text = response.fields.first("age")?.split(separator: ",").first.map {
            $0.filter { $0 != " " && $0 != "\t" }
        }
        let declared = CacheControl.seconds(text) ?? 0
        let age = min(max(apparent, declared + delay), CacheControl.maxSeconds)
        explanation.note(
            "initialAge",
            "\(age) s on arrival: the larger of \(apparent) s (\(date == nil ? "no Date" : "by Date")) and "
                + "\(declared) s (Age) + \(delay) s (request time)")
        return age
    }

    /// The lifetime in seconds (RFC 9111, section 4.2.1), estimated as in section 4.2.2 if the response has no explicit
    /// one.
    private static func lifetime(
        _ response: StoredResponse, _ control: CacheControl, _ explanation: inout CacheTrace?
    ) -> (Int, Basis) {
        if let maximumAge = control.maximumAge {
            explanation.note("lifetime", "\(maximumAge) s by Cache-Control: max-age")
            return (maximumAge, .maximumAge)
        }
        let sent = date("date", response) ?? response.responseTime
        if let expires = response.fields.first("expires") {
            // An invalid date counts as expired (RFC 9111, section 5.3).
            let lifetime = date("expires", response).map { max(0, difference($0, sent)) } ?? 0
            let clamped = min(lifetime, CacheControl.maxSeconds)
            explanation.note("lifetime", "\(clamped) s by Expires (\(expires.prefix(40)))")
            return (clamped, .expires)
        }
        guard let changed = date("last-modified", response), difference(sent, changed) > 0 else {
            explanation.note("lifetime", "0 s: no max-age, no Expires and no usable Last-Modified")
            return (0, .none)
        }
        let unchanged = difference(sent, changed)
        let guess = min(unchanged / 10, maxHeuristic)
        explanation.note(
            "lifetime",
            "\(guess) s by heuristic: a tenth of the \(unchanged) s since the last change, limited to \(maxHeuristic) s"
        )
        return (guess, .heuristic)
    }

    private static func date(_ name: String, _ response: StoredResponse) -> Int? {
        let now = HTTPDate(secondsSinceEpoch: Int64(response.responseTime))
        let date = response.fields.first(name).flatMap { HTTPDate(parsing: $0, now: now) }
        return date.map { Int($0.secondsSinceEpoch) }
    }

    /// `left - right`, clamped to ±2^40 so that extreme values from a wrong clock or a damaged index cannot overflow.
    private static func difference(_ left: Int, _ right: Int) -> Int {
        let (difference, overflows) = left.subtractingReportingOverflow(right)
        let limit = 1 << 40
        return overflows ? (left > right ? limit : -limit) : min(max(difference, -limit), limit)
    }
}

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
