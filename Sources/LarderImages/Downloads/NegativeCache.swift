internal import LarderUpstream

/// For how many seconds failures are remembered if the response specifies no time itself; 0 for not at all.
package struct FailureLifetimes: Sendable, Hashable {
    /// The origin answered 404 or 410.
    package var notFound: Int
    /// Other 4xx statuses, malformed responses, and bodies that are not images.
    package var refused: Int
    /// 5xx statuses.
    package var serverError: Int
    /// Timeouts, slow transfers and broken connections.
    package var network: Int

    /// Makes lifetimes.
    package init(notFound: Int = 300, refused: Int = 60, serverError: Int = 5, network: Int = 5) {
        self.notFound = notFound
        self.refused = refused
        self.serverError = serverError
        self.network = network
    }
}

/// Recent failures of images, and origins that were unreachable, so that requests fail at once instead of waiting again.
/// `Retry-After` or the explicit freshness of the response determines how long a failure is remembered, otherwise its kind.
struct NegativeCache: Sendable {
    struct Failure: Sendable, Hashable {
        let error: ImageError
        /// In seconds since 1970.
        let until: Int
    }

    private struct Outage {
        /// The reason, without the URL of the failed request, which other clients must not see.
        var reason: String
        var code: UpstreamError.Code
        var until: Int
        var delay: Int
    }

    private var images: [ImageKey: Failure] = [:]
    private var outages: [String: Outage] = [:]
    private let capacity: Int
    var lifetimes: FailureLifetimes

    /// An outage is remembered for this many seconds first, and twice as long each time, up to ``longestOutage``.
    static let firstOutage = 2
    static let longestOutage = 30
    /// The longest times that a response can specify, in seconds: a day by its freshness, ten minutes by `Retry-After`.
    static let (longestLifetime, longestRetryAfter) = (86_400, 600)

    /// - Parameter capacity: the maximum number of images, and of origins
    init(capacity: Int = 4096, lifetimes: FailureLifetimes = FailureLifetimes()) {
        self.capacity = capacity
        self.lifetimes = lifetimes
    }

    var count: Int { images.count + outages.count }

    /// Adds a failure.
    ///
    /// - Parameters:
    ///   - image: the key of the URL itself, since another signature may open an image that this one does not
    ///   - isReachable: whether the origin sent anything, to this request or to another one since it began. Only an origin that
    ///     did not is unreachable for all; a timeout after the connection was made concerns that image only
    mutating func remember(_ error: ImageError, image: ImageKey, origin: String, isReachable: Bool, now: Int) {
        if let cause = error.cause, let reason = cause.originFailure, !isReachable {
            if outages[origin] == nil { evict(from: &outages, now) { $0.until } }
            // Several downloads fail in one outage, which counts once.
            if let known = outages[origin], known.until > now { return }
            let delay = outages[origin].map { min($0.delay * 2, Self.longestOutage) } ?? Self.firstOutage
            outages[origin] = Outage(reason: reason, code: cause.code, until: now + delay, delay: delay)
        } else if let seconds = seconds(error), seconds > 0 {
            if images[image] == nil { evict(from: &images, now) { $0.until } }
            images[image] = Failure(error: error, until: now + seconds)
        }
    }

    /// Removes the outage of an origin, because it responded.
    mutating func reached(_ origin: String) { outages[origin] = nil }

    /// Removes the failure of an image.
    mutating func succeeded(_ image: ImageKey) { images[image] = nil }

    /// Removes all failures, because other settings apply.
    mutating func forgetAll() {
        images = [:]
        outages = [:]
    }

    /// Returns the failure that a request would end with, if any.
    ///
    /// - Parameter url: the URL of the request, for messages
    func failure(of image: ImageKey, origin: String, url: String, now: Int) -> Failure? {
        if let outage = outages[origin], outage.until > now {
            let cause = UpstreamError(
                outage.code, "\(url) was not asked for: \(outage.reason)", originFailure: outage.reason)
            return Failure(error: ImageError(cause), until: outage.until)
        }
        if let failure = images[image], failure.until > now { return failure }
        return nil
    }

    /// For how long a failure of an image is remembered; nil if it is not.
    private func seconds(_ error: ImageError) -> Int? {
        switch error.code {
        case .notAnImage, .unsupportedType, .excludedType, .damagedImage, .truncatedImage, .tooManyPixels, .tooLarge,
            .lengthDisagrees:
            return error.lifetime.map { min($0, Self.longestLifetime) } ?? lifetimes.refused
        case .forbiddenAddress:
            return lifetimes.refused
        case .offline:
            return lifetimes.network
        case .upstreamFailed:
            guard let cause = error.cause else { return lifetimes.network }
            return seconds(cause, error.lifetime)
        default:
            return nil
        }
    }

    /// - Parameter lifetime: for how many seconds the response may be reused, or nil if it does not specify it
    private func seconds(_ cause: UpstreamError, _ lifetime: Int?) -> Int {
        guard let status = cause.status else { return cause.isRetryable ? lifetimes.network : lifetimes.refused }
        if let retryAfter = cause.retryAfter {
            return Int(min(retryAfter.components.seconds, Int64(Self.longestRetryAfter)))
        }
        // The freshness of an unexpected 304 or 206 belongs to another response.
        if let lifetime, cause.code != .malformedAnswer { return min(lifetime, Self.longestLifetime) }
        switch status {
        case 404, 410: return lifetimes.notFound
        case 500...: return lifetimes.serverError
        default: return lifetimes.refused
        }
    }

    /// Removes expired entries, and if that is not enough, the half of the rest that expires first.
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
