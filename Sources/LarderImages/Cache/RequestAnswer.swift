internal import LarderHTTPSemantics
internal import LarderUpstream

/// How to answer a request.
enum RequestAnswer {
    /// With the cached image, which is revalidated in the background if `isRevalidated` is true.
    case cached(isRevalidated: Bool)
    case error(ImageError)
    /// After a download.
    case download(isUnconditional: Bool)

    /// - Parameters:
    ///   - candidate: the cached image, if any
    ///   - failure: the failure of the request's own download, if any
    ///   - recent: a recent failure that the request would repeat, if any
    ///   - now: seconds since 1970
    ///   - uptime: the uptime in seconds
    init(
        to request: ImageRequest, from candidate: StoredCandidate?, after failure: ImageError?,
        recent: NegativeCache.Failure?, _ now: Int, uptime: Int
    ) {
        let decision = request.cache.decide(candidate, now: now)
        switch decision {
        case .fresh: self = .cached(isRevalidated: false)
        case .stale(let isRevalidated): self = .cached(isRevalidated: isRevalidated)
        case .notHeld: self = .error(ImageCache.notHeld)
        case .revalidate, .fetch:
            var failure = failure
            if failure == nil, request.cache.policy != .networkOnly, let recent {
                failure = ImageError(
                    recent.error.code, "\(recent.error.message) (not retried for another \(recent.until - uptime) s)",
                    cause: recent.error.cause)
            }
            guard let failure else {
                self = .download(isUnconditional: decision == .fetch)
                return
            }
            let isStale = candidate.map { request.cache.answersStale(after: failure, $0, now: now) } ?? false
            self = isStale ? .cached(isRevalidated: false) : .error(failure)
        }
    }
}
