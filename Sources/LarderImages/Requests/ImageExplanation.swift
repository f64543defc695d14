package import LarderHTTPSemantics
internal import LarderUpstream

/// Why a request is a hit or not, and the state of its image.
package struct ImageExplanation: Sendable {
    /// A recent failure.
    package struct Failure: Sendable, Hashable {
        package let error: ImageError
        /// Until when the origin is not asked again, in seconds since 1970.
        package let until: Int
    }

    /// A queued or running download.
    package struct Flight: Sendable, Hashable {
        /// The number of waiting requests.
        package let waiters: Int
        /// The highest priority among them.
        package let priority: ImagePriority
        /// Whether it waits for its place.
        package let isQueued: Bool
        package let receivedBytes: Int
    }

    package let decision: CacheDecision
    /// The rules that were applied.
    package let rules: CacheTrace
    /// The row of the cached image, if any.
    package let row: ImageRow?
    /// A failure that would answer the request instead of the network.
    package let failure: Failure?
    /// The download that the request would wait for.
    package let flight: Flight?
}

extension ImageExplanation {
    /// Explains a request.
    ///
    /// - Parameters:
    ///   - row: the row of its key, if any
    ///   - isUsable: whether the cached image may answer the request, by its digest and its age
    ///   - matchesVariant: whether the row is a response to our request fields
    ///   - failure: a recent failure of its URL or origin
    ///   - downloads: the downloads now
    ///   - key: the key of the request
    init(
        _ request: ImageRequest, row: ImageRow?, isUsable: Bool, matchesVariant: Bool,
        failure: NegativeCache.Failure?, downloads: ImageDownloads.Table, key: ImageKey, now: Int
    ) {
        let (decision, trace) = request.cache.explain(
            isUsable ? row?.response : nil, matchesVariant: matchesVariant, now: now)
        var rules: CacheTrace? = trace
        if let row, !isUsable {
            if let expected = request.expectedDigest, expected != row.digest {
                rules.note("expectedDigest", "what is held is another image: \(row.digest)")
            } else {
                rules.note("maximumAge", "it was stored \(now - row.storedAt) s ago, longer than the settings keep it")
            }
        }
        if let failure, request.cache.policy != .networkOnly {
            let subject =
                failure.error.cause?.originFailure == nil ? "this URL is not asked for" : "its origin is not asked"
            let needsNetwork = decision == .fetch || decision == .revalidate
            rules.note(
                "failure",
                "\(subject) for another \(failure.until - now) s"
                    + (needsNetwork ? ", so the request would fail at once" : "") + ": \(failure.error.message)")
        }
        let id = downloads.download(serving: request, for: key, unconditionally: decision == .fetch)
        self.init(
            decision: decision, rules: rules ?? trace, row: row,
            failure: failure.map { Failure(error: $0.error, until: $0.until) },
            flight: id.flatMap { id in
                downloads[id].map {
                    Flight(
                        waiters: $0.waiters.count, priority: $0.priority, isQueued: downloads.isQueued(id),
                        receivedBytes: $0.progress.received)
                }
            })
    }
}

extension ImageRow {
    /// When the origin sent it or last confirmed it, in seconds since 1970.
    package var storedAt: Int { response.responseTime }

    /// Further details from its header and its response.
    package var details: ImageDetails { ImageDetails(header: header, response: response) }

    /// Until when it is fresh, in seconds since 1970.
    package var expiresAt: Int {
        let freshness = ResponseFreshness(response)
        return freshness.responseTime - freshness.initialAge + freshness.lifetime
    }

    /// The key of its requests: a URL without the parts that the settings ignore, or an origin together with a
    /// ``ImageRequest/cacheKey``.
    package var lookup: (url: String, cacheKey: String?) {
        let lines = keyText.split(separator: "\n", maxSplits: 2, omittingEmptySubsequences: false)
        guard lines.count > 1 else { return (keyText, nil) }
        return (String(lines[1]), lines.count > 2 ? String(lines[2]) : nil)
    }
}
