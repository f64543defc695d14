internal import LarderHTTPSemantics
internal import LarderUpstream

/// How long failures are cached, in seconds. 0 disables caching.
package struct FailureLifetimes: Sendable, Hashable {
    /// For the statuses 404 and 410, unless the response has explicit freshness.
    package var notFound: Int
    /// For other 4xx statuses, malformed responses, and bodies that are not images or not the expected ones.
    package var rejected: Int
    /// For 5xx statuses.
    package var serverError: Int
    /// For timeouts, slow transfers and broken connections.
    package var network: Int

    package init(notFound: Int = 300, rejected: Int = 60, serverError: Int = 5, network: Int = 5) {
        self.notFound = notFound
        self.rejected = rejected
        self.serverError = serverError
        self.network = network
    }
}

/// Caches failures of images and outages of origins, so that repeated requests fail at once. `Retry-After`, or else the
/// kind of failure (``FailureLifetimes``), determines how long a failure is cached. The explicit freshness of a response
/// describes its representation and not the failure, except that of a 404 or 410. A failure is not cached if a response
/// forbids its reuse.
struct NegativeCache: Sendable {
    struct Failure: Sendable, Hashable {
        let error: ImageError
        /// When the failure expires, in seconds of uptime.
        let until: Int
    }

    private struct Outage {
        /// The reason for the outage. It is reported to clients that requested other URLs, so it must not contain the
        /// URL of the failed request.
        var reason: String
        var code: UpstreamError.Code
        var until: Int
        var delay: Int
    }

    /// An image that cannot be downloaded.
    private struct Subject: Hashable {
        let image: ImageKey
        /// The expected digest, if the image has another one. Nil for all other failures.
        var digest: BlobDigest?
    }

    private var images: [Subject: Failure] = [:]
    private var outages: [String: Outage] = [:]
    private let capacity: Int
    var lifetimes: FailureLifetimes

    /// The time in seconds for which an outage is cached at first. The time doubles, up to ``maxOutage``, each time the
    /// origin is still unreachable when the cached outage expires.
    static let firstOutage = 2
    static let maxOutage = 30
    /// The maximum times that a response can specify, in seconds: a day by its freshness, ten minutes by `Retry-After`.
    static let (maxLifetime, maxRetryAfter) = (86_400, 600)

    /// - Parameter capacity: the maximum number of cached failures of images, and also that of cached outages of
    ///   origins
    init(capacity: Int = 4096, lifetimes: FailureLifetimes = FailureLifetimes()) {
        self.capacity = capacity
        self.lifetimes = lifetimes
    }

    var count: Int { images.count + outages.count }

    /// Adds a failure.
    ///
    /// - Parameters:
    ///   - image: the key of the complete URL, because one signature may fail while another is valid
    ///   - expectedDigest: the digest that the request expects. A failure with ``ImageError/Code/digestMismatch``
    ///     concerns only requests that expect the same one
    ///   - isReachable: whether the origin has sent anything since the request began, to this or another request. If
    ///     so, the failure concerns only this image. Otherwise it may be recorded as an outage of the origin
    ///   - now: the uptime in seconds
    mutating func remember(
        _ error: ImageError, image: ImageKey, expectedDigest: BlobDigest? = nil, origin: String, isReachable: Bool,
        now: Int
    ) {
        if let cause = error.cause, let reason = cause.originFailure, !isReachable {
            if outages[origin] == nil { evict(from: &outages, now) { $0.until } }
            // Several downloads may fail during one outage. Only the first failure sets the time for which the outage
            // is cached.
            if let known = outages[origin], known.until > now { return }
            let delay = outages[origin].map { min($0.delay * 2, Self.maxOutage) } ?? Self.firstOutage
            outages[origin] = Outage(reason: reason, code: cause.code, until: now + delay, delay: delay)
        } else if let seconds = seconds(error), seconds > 0 {
            let subject = Subject(image: image, digest: error.code == .digestMismatch ? expectedDigest : nil)
            if images[subject] == nil { evict(from: &images, now) { $0.until } }
            images[subject] = Failure(error: error, until: now + seconds)
        }
    }

    /// Removes the outage of an origin that has responded.
    mutating func reached(_ origin: String) { outages[origin] = nil }

    /// Removes the failure of an image that has been downloaded. Requests that expect another digest still fail.
    mutating func succeeded(_ image: ImageKey) { images[Subject(image: image)] = nil }

    /// Removes all failures, after a change of the settings.
    mutating func forgetAll() {
        images = [:]
        outages = [:]
    }

    /// Returns the cached failure of a request, if any.
    ///
    /// - Parameters:
    ///   - expectedDigest: the digest that the request expects
    ///   - url: the URL of the request, for messages
    ///   - now: the uptime in seconds
    func failure(
        of image: ImageKey, expectedDigest: BlobDigest? = nil, origin: String, url: String, now: Int
    ) -> Failure? {
        if let outage = outages[origin], outage.until > now {
            let cause = UpstreamError(
                outage.code, "\(url) was not requested: \(outage.reason)", originFailure: outage.reason)
            return Failure(error: ImageError(cause), until: outage.until)
        }
        let subjects = [Subject(image: image)] + (expectedDigest.map { [Subject(image: image, digest: $0)] } ?? [])
        return subjects.lazy.compactMap { images[$0] }.first { $0.until > now }
    }

    /// The number of seconds for which to cache a failure of an image; nil if it must not be cached.
    private func seconds(_ error: ImageError) -> Int? {
        switch error.code {
        case .offline:
            return lifetimes.network
        case .upstreamFailed:
            guard let cause = error.cause else { return lifetimes.network }
            return seconds(cause, error.lifetime)
        case .notAnImage, .unsupportedType, .excludedType, .damagedImage, .truncatedImage, .tooManyPixels, .tooLarge,
            .lengthMismatch, .digestMismatch, .forbiddenAddress:
            return error.lifetime == 0 ? nil : lifetimes.rejected
        default:
            return nil
        }
    }

    /// - Parameter lifetime: the number of seconds for which the responses may be reused; nil if they do not specify a
    ///   lifetime
    private func seconds(_ cause: UpstreamError, _ lifetime: Int?) -> Int? {
        if cause.status == nil, cause.isOutage || cause.code == .other { return lifetimes.network }
        if let retryAfter = cause.retryAfter {
            return Int(min(retryAfter.components.seconds, Int64(Self.maxRetryAfter)))
        }
        if lifetime == 0 { return nil }
        switch cause.status {
        case 404, 410: return lifetime.map { min($0, Self.maxLifetime) } ?? lifetimes.notFound
        case let status? where status >= 500: return lifetimes.serverError
        default: return lifetimes.rejected
        }
    }

    /// Removes expired entries. If that is not enough, also removes the half of the rest that expires first.
    private func evict<Key: Hashable, Value>(
        from table: inout [Key: Value], _ now: Int, until: (Value) -> Int
    ) {
        guard table.count >= capacity else { return }
        table = table.filter { until($0.value) > now }
        guard table.count >= capacity else { return }
        for (key, _) in table.sorted(by: { until($0.value) < until($1.value) }).prefix(capacity / 2 + 1) {
            table[key] = nil
        }
    }
}

extension CacheRequest {
    /// Whether a stale image may answer a request whose download failed. It may only if the origin had an outage, if
    /// its response was not an image, or if the response could not be stored, and if the request and the stored
    /// response permit stale images.
    func answersStale(after error: ImageError, _ stored: StoredCandidate, now: Int) -> Bool {
        switch error.code {
        case .cacheFull, .storageFailed: mayBeStale(stored, now: now)
        // The page of a proxy or a captive portal is an invalid response. A gateway would report it with status 502.
        case .notAnImage, .damagedImage, .truncatedImage, .lengthMismatch: mayBeStale(stored, now: now)
        default: error.cause.map { answersStale(after: $0, stored, now: now) } ?? false
        }
    }

    /// Whether a stale image may answer a client's request after the agent's request to the origin failed.
    ///
    /// - Parameters:
    ///   - error: the failure. Only an outage allows a stale image; a response such as 404 does not
    ///   - stored: the cached image
    ///   - now: the time in seconds since 1970
    func answersStale(after error: UpstreamError, _ stored: StoredCandidate, now: Int) -> Bool {
        error.isOutage && mayBeStale(stored, now: now)
    }
}

extension UpstreamError {
    /// Whether the network or the origin failed (RFC 5861, section 4), or the origin sent an invalid response. A response
    /// such as 404 is not an outage, because it concerns only the image.
    var isOutage: Bool {
        switch code {
        case .connectFailed, .tlsFailed, .timeout, .tooSlow, .connectionClosed, .truncated, .malformedAnswer,
            .empty:
            true
        case .status: [500, 502, 503, 504].contains(status)
        default: false
        }
    }
}
