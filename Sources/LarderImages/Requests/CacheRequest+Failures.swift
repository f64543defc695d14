internal import LarderHTTPSemantics
internal import LarderUpstream

extension CacheRequest {
    /// Whether what is held answers a request although it could not be fetched: for an outage, and where there was no room
    /// for the answer.
    func answersStale(after error: ImageError, _ held: StoredCandidate, now: Int) -> Bool {
        switch error.code {
        case .noRoom, .storageFailed: mayBeStale(held, now: now)
        default: error.cause.map { answersStale(after: $0, held, now: now) } ?? false
        }
    }

    /// Whether what is held answers a request although asking the origin failed.
    ///
    /// - Parameters:
    ///   - error: what asking ended with; only an outage counts, not an answer such as 404
    ///   - held: what is held
    ///   - now: the time in seconds since 1970
    func answersStale(after error: UpstreamError, _ held: StoredCandidate, now: Int) -> Bool {
        error.isOutage && mayBeStale(held, now: now)
    }
}

extension UpstreamError {
    /// Whether the network or the origin is out of order, as RFC 5861, section 4, means it; an answer such as 404 says
    /// something about the image instead.
    var isOutage: Bool {
        switch code {
        case .connectFailed, .tlsFailed, .timeout, .tooSlow, .connectionClosed, .truncated, .malformedAnswer: true
        case .status: [500, 502, 503, 504].contains(status)
        default: false
        }
    }
}
