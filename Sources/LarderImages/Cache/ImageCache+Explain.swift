internal import LarderHTTPSemantics
internal import LarderImageFormats
internal import LarderUpstream

extension ImageCache {
    /// Says what would be done with a request, and why. Reads the row; does nothing else.
    ///
    /// - Throws: ``ImageError/Code/invalidURL``, ``ImageError/Code/storageFailed``
    public func explain(_ request: ImageRequest) async throws(ImageError) -> ImageExplanation {
        let place = try place(of: request)
        let index = index
        let row = try await indexQueue.submit { () throws(ImageError) in try index.row(place.key) }.value()
        let now = clock.now
        let answers = catalog.held(place, request.expectedDigest, now: now) != nil
        let matches = row?.response.variant.matches(sent) ?? true
        let (decision, explained) = request.cache.explain(
            answers ? row?.response : nil, matchesVariant: matches, now: now)
        var rules: CacheTrace? = explained
        if let row, !answers {
            if let expected = request.expectedDigest, expected != row.digest {
                rules.note("expectedDigest", "what is held is another image: \(row.digest)")
            } else {
                rules.note("maximumAge", "it was stored \(now - row.storedAt) s ago, longer than the settings keep it")
            }
        }
        let remembered = failures.failure(
            of: place.exactKey(of: request.url), origin: place.address.origin, url: place.address.display, now: now)
        if let remembered, request.cache.policy != .networkOnly {
            let subject =
                remembered.error.cause?.originFailure == nil ? "this URL is not asked for" : "its origin is not asked"
            let needsNetwork = decision == .fetch || decision == .revalidate
            rules.note(
                "failure",
                "\(subject) for another \(remembered.until - now) s"
                    + (needsNetwork ? ", so the request would fail at once" : "")
                    + ": \(remembered.error.message)")
        }
        let flight = flightsByKey[place.key]?.compactMap { flights[$0] }
            .first { $0.serves(request, unconditionally: decision == .fetch) }
        return ImageExplanation(
            decision: decision, rules: rules ?? explained, row: row,
            failure: remembered.map { ImageExplanation.Failure(error: $0.error, until: $0.until) },
            flight: flight.map {
                ImageExplanation.Flight(
                    waiters: $0.waiters.count, priority: $0.priority, isQueued: $0.task == nil,
                    receivedBytes: $0.progress.received)
            })
    }
}
