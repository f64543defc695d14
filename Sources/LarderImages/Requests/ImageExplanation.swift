package import LarderHTTPSemantics
internal import LarderUpstream

/// Explains how a request would be answered, and describes the cached image and the current download that determine the
/// answer.
package struct ImageExplanation: Sendable {
    package let decision: CacheDecision
    /// The rules that were applied, in order.
    package let rules: CacheTrace
    /// The row of the cached image, if any.
    package let row: ImageRow?
    /// The download for which the request would wait.
    package let download: DownloadStatus?
}

extension ImageExplanation {
    /// Explains a request.
    ///
    /// - Parameters:
    ///   - row: the row of the request's key, if any
    ///   - isUsable: whether the digest and age of the cached image allow it to answer the request
    ///   - matchesVariant: whether the `Vary` of the cached response allows the image to answer a request with the
    ///     fields that the agent sends
    ///   - failure: a recent failure of the URL or the origin
    ///   - downloads: the current downloads
    ///   - key: the key of the request
    ///   - clock: the clock of the cache
    init<Continuation, Handle>(
        _ request: ImageRequest, row: ImageRow?, isUsable: Bool, matchesVariant: Bool,
        failure: NegativeCache.Failure?, downloads: DownloadTable<Continuation, Handle>, key: ImageKey,
        clock: ImageClock
    ) {
        let (now, uptime) = (clock.now, clock.uptime)
        let (decision, trace) = request.cache.explain(
            isUsable ? row?.response : nil, matchesVariant: matchesVariant, now: now)
        var rules: CacheTrace? = trace
        if let row, !isUsable {
            if let expected = request.expectedDigest, expected != row.digest {
                rules.note("expectedDigest", "the cached image has another digest: \(row.digest)")
            } else {
                rules.note(
                    "maximumAge",
                    "it was stored \(now - row.storedAt) s ago, longer than images.maximumAgeSeconds allows")
            }
        }
        if let failure, request.cache.policy != .networkOnly {
            let subject =
                failure.error.cause?.originFailure == nil ? "this URL is not requested" : "its origin is not contacted"
            let needsNetwork = decision == .fetch || decision == .revalidate
            rules.note(
                "failure",
                "\(subject) for another \(failure.until - uptime) s"
                    + (needsNetwork ? ", so the request would fail at once" : "") + ": \(failure.error.message)")
        }
        let id = downloads.download(serving: request, for: key, unconditionally: decision == .fetch)
        self.init(
            decision: decision, rules: rules ?? trace, row: row,
            download: id.flatMap { downloads.status(of: $0, at: uptime) })
    }
}
