internal import LarderHTTPSemantics
internal import LarderUpstream

extension CacheRequest {
    /// Whether a stale image answers a request after a failed download: after an outage, or if there was no room for the
    /// response.
    func answersStale(after error: ImageError, _ held: StoredCandidate, now: Int) -> Bool {
        switch error.code {
        case .noRoom, .storageFailed: mayBeStale(held, now: now)
        default: error.cause.map { answersStale(after: $0, held, now: now) } ?? false
        }
    }

    /// Whether a stale image answers a request after a failed request to the origin.
    ///
    /// - Parameters:
    ///   - error: only an outage counts, not a response such as 404
    ///   - held: the cached image
    ///   - now: the time in seconds since 1970
    func answersStale(after error: UpstreamError, _ held: StoredCandidate, now: Int) -> Bool {
        error.isOutage && mayBeStale(held, now: now)
    }
}

extension UpstreamError {
    /// Whether the network or the origin failed (RFC 5861, section 4). A response such as 404 concerns the image instead.
    var isOutage: Bool {
        switch code {
        case .connectFailed, .tlsFailed, .timeout, .tooSlow, .connectionClosed, .truncated, .malformedAnswer: true
        case .status: [500, 502, 503, 504].contains(status)
        default: false
        }
    }
}
