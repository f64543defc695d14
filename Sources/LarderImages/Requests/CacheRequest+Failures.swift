internal import LarderHTTPSemantics
internal import LarderUpstream

extension CacheRequest {
    /// Whether a stale image may answer a request whose download failed. It may only if the origin had an outage, if
    /// its response was not an image, or if the response could not be stored, and if the request and the stored
    /// response permit stale images.
    func answersStale(after error: ImageError, _ stored: StoredCandidate, now: Int) -> Bool {
        switch error.code {
        case .noRoom, .storageFailed: mayBeStale(stored, now: now)
        // The page of a proxy or a captive portal is an invalid response. A gateway would report it with status 502.
        case .notAnImage, .damagedImage, .truncatedImage, .lengthDisagrees: mayBeStale(stored, now: now)
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
