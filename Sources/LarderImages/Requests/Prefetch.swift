/// How far a prefetch has come.
public struct PrefetchProgress: Sendable, Hashable {
    /// Images that are held now.
    public var done = 0
    /// Images that could not be had.
    public var failed = 0
    /// Bytes of the images that were fetched.
    public var bytes = 0
    /// Images that were asked for.
    public let total: Int
}

/// What a prefetch came to. Where it was cancelled, the figures together are less than ``total``.
public struct PrefetchSummary: Sendable, Hashable {
    /// One image that could not be had.
    public struct Failure: Sendable, Hashable {
        /// Which of the requests, counted from 0.
        public let index: Int
        public let error: ImageError
    }

    /// Images that were asked for.
    public let total: Int
    /// Images that were fetched.
    public var fetched = 0
    /// Images that were held already.
    public var held = 0
    /// Bytes of the images that were fetched.
    public var bytes = 0
    /// Those that could not be had, in the order of the requests.
    public var failures: [Failure] = []
}

extension ImageCache {
    /// Fetches images that nobody waits for yet. When its task is cancelled it stops; what is complete stays.
    ///
    /// - Parameters:
    ///   - requests: what to fetch; their priority is not looked at
    ///   - concurrency: how many at once, at least 1; flights have limits of their own
    ///   - check: whether the requester may have an image, before it is fetched and when it has come
    ///   - progress: is called after each image
    public func prefetch(
        _ requests: [ImageRequest], concurrency: Int,
        check: @escaping @Sendable (ImageRequest) throws(ImageError) -> Void = { _ in },
        progress: @escaping @Sendable (PrefetchProgress) -> Void
    ) async -> PrefetchSummary {
        var state = PrefetchProgress(total: requests.count)
        var summary = PrefetchSummary(total: requests.count)
        await withTaskGroup(of: (index: Int, result: Result<CachedImage, ImageError>).self) { group in
            var next = 0
            func add() {
                guard next < requests.count, !Task.isCancelled else { return }
                let index = next
                var request = requests[index]
                request.priority = .prefetch
                // What was fetched just now may have to make room for the next one.
                request.takesReference = false
                next += 1
                group.addTask { [request] in
                    do throws(ImageError) {
                        try check(request)
                        let image = try await self.image(request)
                        try check(request)
                        return (index, .success(image))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            for _ in 0..<max(1, concurrency) { add() }
            while let (index, result) = await group.next() {
                switch result {
                case .success(let image):
                    state.done += 1
                    if image.source == .hit { summary.held += 1 } else { summary.fetched += 1 }
                    if image.source == .miss { state.bytes += image.bytes }
                case .failure(let error):
                    // What was stopped did not fail.
                    if error.code == .cancelled, Task.isCancelled { continue }
                    state.failed += 1
                    summary.failures.append(PrefetchSummary.Failure(index: index, error: error))
                }
                progress(state)
                add()
            }
        }
        summary.bytes = state.bytes
        summary.failures.sort { $0.index < $1.index }
        return summary
    }
}
