internal import LarderHTTPSemantics
internal import LarderImageFormats
internal import LarderPlatform
internal import LarderUpstream
internal import Logging

extension ImageCache {
    /// Answers a request, from the network where it has to be.
    ///
    /// Cancelling the task takes this request back and no other; a flight ends with the last one that waits for it. An
    /// image that is returned carries a reference even if the task was cancelled meanwhile.
    ///
    /// - Throws: ``ImageError``
    public func image(_ request: ImageRequest) async throws(ImageError) -> CachedImage {
        let place = try place(of: request)
        // Whether the image of a digest is an answer to what we send, where only its row could tell.
        var variants: [BlobDigest: Bool] = [:]
        var failure: ImageError?
        while true {
            if isStopping { throw Self.shuttingDown }
            if Task.isCancelled { throw Self.cancelled }
            let now = clock.now
            let entry = catalog.held(place, request.expectedDigest, now: now)
            if let entry, entry.matches(catalog.fingerprint) == nil, variants[entry.digest] == nil {
                variants[entry.digest] = try await isVariantOurs(entry)
                continue
            }
            let held = entry.map { entry in
                StoredCandidate(
                    freshness: entry.freshness,
                    matchesVariant: entry.matches(catalog.fingerprint) ?? variants[entry.digest] ?? false)
            }
            switch answer(request, place, held, failure, now) {
            case .held(let isAskedBehind):
                guard let entry else { throw Self.notHeld }
                if let image = catalog.take(entry, now: now) {
                    if isAskedBehind { askBehind(place, request) }
                    if !request.takesReference { release(image.digest) }
                    return image
                }
                try await verify(entry.digest)
                await loadDetails(entry)
            case .error(let error): throw error
            case .flight(let isUnconditional):
                switch await wait(request, place, isUnconditional: isUnconditional) {
                case .image(let image): return image
                case .failed(let error): failure = error
                case .again: break
                }
            }
        }
    }

    private enum Answer {
        case held(isAskedBehind: Bool)
        case error(ImageError)
        case flight(isUnconditional: Bool)
    }

    /// What to do with a request now.
    ///
    /// - Parameter failure: what its own flight ended with, if there was one
    private func answer(
        _ request: ImageRequest, _ place: CacheLocation, _ held: StoredCandidate?, _ failure: ImageError?, _ now: Int
    ) -> Answer {
        let decision = request.cache.decide(held, now: now)
        switch decision {
        case .fresh: return .held(isAskedBehind: false)
        case .stale(let isAskedBehind): return .held(isAskedBehind: isAskedBehind)
        case .notHeld: return .error(Self.notHeld)
        case .revalidate, .fetch: break
        }
        var failure = failure
        if failure == nil, request.cache.policy != .networkOnly {
            failure = remembered(place, request.url, now)
        }
        guard let failure else { return .flight(isUnconditional: decision == .fetch) }
        if let held, request.cache.answersStale(after: failure, held, now: now) { return .held(isAskedBehind: false) }
        return .error(failure)
    }

    /// A failure that answers in the place of the network.
    private func remembered(_ place: CacheLocation, _ url: String, _ now: Int) -> ImageError? {
        let failure = failures.failure(
            of: place.exactKey(of: url), origin: place.address.origin, url: place.address.display, now: now)
        guard let failure else { return nil }
        return ImageError(
            failure.error.code, "\(failure.error.message) (not tried again for another \(failure.until - now) s)",
            cause: failure.error.cause)
    }

    /// Loads the details of an image into the catalog, which has none after the start.
    func loadDetails(_ entry: ImageEntry) async {
        guard catalog.details(of: entry) == nil else { return }
        let (index, catalog) = (index, catalog)
        // If the row cannot be read, the image is still served, without details.
        try? await indexQueue.submit { () throws(ImageError) in
            let row = try? index.row(entry.key)
            catalog.setDetails(row?.details ?? .unknown, of: entry)
        }.value()
    }

    private func isVariantOurs(_ entry: ImageEntry) async throws(ImageError) -> Bool {
        let index = index
        let key = entry.key
        let row = try await indexQueue.submit { () throws(ImageError) in try index.row(key) }.value()
        return row?.response.variant.matches(sent) ?? false
    }

    /// Has the file of a blob looked at before it is answered with. Where it is damaged its rows are gone afterwards.
    func verify(_ digest: BlobDigest) async throws(ImageError) {
        let task = verifications[digest] ?? Task { await self.inspect(digest) }
        verifications[digest] = task
        let error = await task.value
        if verifications[digest] == task { verifications[digest] = nil }
        if let error { throw error }
    }

    private func inspect(_ digest: BlobDigest) async -> ImageError? {
        var isUsable = false
        if store.retain(digest) {
            defer { release(digest) }
            let store = store
            do throws(ImageError) {
                _ = try await blocking.run { () throws(ImageError) in try store.open(digest) }
                isUsable = true
            } catch {
                guard error.code == .damagedBlob else { return error }
                logger.warning("An image on disk was damaged", metadata: ["error": "\(error)"])
                // Perhaps it was fetched again while we looked.
                isUsable = store.isVerified(digest)
            }
        }
        if isUsable { return nil }
        do throws(ImageError) { _ = try await removeRows(of: digest) } catch { return error }
        return nil
    }

    static let notHeld = ImageError(
        .notHeld, "the image is not held, and the request wants no network; ask with another policy")
    static let cancelled = ImageError(.cancelled, "the request was cancelled")
    static let shuttingDown = ImageError(.shuttingDown, "the agent is shutting down; ask again after its restart")
}
