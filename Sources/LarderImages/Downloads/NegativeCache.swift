internal import LarderUpstream

/// How long failures are cached, in seconds, unless the response specifies a time. 0 disables caching.
package struct FailureLifetimes: Sendable, Hashable {
    /// For the statuses 404 and 410.
    package var notFound: Int
    /// For other 4xx statuses, malformed responses, and bodies that are not images.
    package var refused: Int
    /// For 5xx statuses.
    package var serverError: Int
    /// For timeouts, slow transfers and broken connections.
    package var network: Int

    package init(notFound: Int = 300, refused: Int = 60, serverError: Int = 5, network: Int = 5) {
        self.notFound = notFound
        self.refused = refused
        self.serverError = serverError
        self.network = network
    }
}

/// Caches failures of images and outages of origins, so that repeated requests fail at once. `Retry-After` or the
/// explicit freshness of the response determines how long a failure is cached. If the response has neither, the kind of
/// failure determines it (``FailureLifetimes``).
struct NegativeCache: Sendable {
    struct Failure: Sendable, Hashable {
        let error: ImageError
        /// When the failure expires, in seconds since 1970.
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

    private var images: [ImageKey: Failure] = [:]
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
    ///   - isReachable: whether the origin has sent anything since the request began, to this or another request. If
    ///     so, the failure concerns only this image. Otherwise it may be recorded as an outage of the origin
    mutating func remember(_ error: ImageError, image: ImageKey, origin: String, isReachable: Bool, now: Int) {
        if let cause = error.cause, let reason = cause.originFailure, !isReachable {
            if outages[origin] == nil { evict(from: &outages, now) { $0.until } }
            // Several downloads may fail during one outage. Only the first failure sets the time for which the outage
            // is cached.
            if let known = outages[origin], known.until > now { return }
            let delay = outages[origin].map { min($0.delay * 2, Self.maxOutage) } ?? Self.firstOutage
            outages[origin] = Outage(reason: reason, code: cause.code, until: now + delay, delay: delay)
        } else if let seconds = seconds(error), seconds > 0 {
            if images[image] == nil { evict(from: &images, now) { $0.until } }
            images[image] = Failure(error: error, until: now + seconds)
        }
    }

    /// Removes the outage of an origin that has responded.
    mutating func reached(_ origin: String) { outages[origin] = nil }

    mutating func succeeded(_ image: ImageKey) { images[image] = nil }

    /// Removes all failures, after a change of the settings.
    mutating func forgetAll() {
        images = [:]
        outages = [:]
    }

    /// Returns the cached failure of a request, if any.
    ///
    /// - Parameter url: the URL of the request, for messages
    func failure(of image: ImageKey, origin: String, url: String, now: Int) -> Failure? {
        if let outage = outages[origin], outage.until > now {
            let cause = UpstreamError(
                outage.code, "\(url) was not requested: \(outage.reason)", originFailure: outage.reason)
            return Failure(error: ImageError(cause), until: outage.until)
        }
        if let failure = images[image], failure.until > now { return failure }
        return nil
    }

    /// The number of seconds for which to cache a failure of an image; nil if it must not be cached.
    private func seconds(_ error: ImageError) -> Int? {
        switch error.code {
        case .notAnImage, .unsupportedType, .excludedType, .damagedImage, .truncatedImage, .tooManyPixels, .tooLarge,
            .lengthDisagrees:
            return error.lifetime.map { min($0, Self.maxLifetime) } ?? lifetimes.refused
        case .forbiddenAddress:
            return error.lifetime == 0 ? nil : lifetimes.refused
        case .offline:
            return lifetimes.network
        case .upstreamFailed:
            guard let cause = error.cause else { return lifetimes.network }
            return seconds(cause, error.lifetime)
        default:
            return nil
        }
    }

    /// - Parameter lifetime: the number of seconds for which the response may be reused; nil if the response does not
    ///   specify a lifetime
    private func seconds(_ cause: UpstreamError, _ lifetime: Int?) -> Int {
        guard let status = cause.status else {
            if cause.isRetryable { return lifetimes.network }
            // The redirects of the request led to no usable target.
            return lifetime == 0 ? 0 : lifetimes.refused
        }
        if let retryAfter = cause.retryAfter {
            return Int(min(retryAfter.components.seconds, Int64(Self.maxRetryAfter)))
        }
        // An unexpected 304 or 206 response states the freshness of the image, and not how long the failure lasts.
        if let lifetime, cause.code != .malformedAnswer { return min(lifetime, Self.maxLifetime) }
        switch status {
        case 404, 410: return lifetimes.notFound
        case 500...: return lifetimes.serverError
        default: return lifetimes.refused
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
