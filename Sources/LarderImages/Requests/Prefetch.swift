/// The result of a prefetch so far. During a prefetch, and if it was cancelled, ``fetched``, ``cached`` and the number of
/// ``failures`` add up to less than ``total``.
package struct PrefetchSummary: Sendable, Hashable {
    /// An image that could not be downloaded, or that the client may not have.
    package struct Failure: Sendable, Hashable {
        /// The index of the request.
        package let index: Int
        package let error: ImageError
    }

    /// The number of requested images.
    package let total: Int
    /// The number of images that were downloaded, for this prefetch or for a concurrent request.
    package var fetched = 0
    /// The number of images that were already cached.
    package var cached = 0
    /// The total bytes of the images that were downloaded for this prefetch.
    package var bytes = 0
    /// The failures; after the prefetch in the order of the requests.
    package var failures: [Failure] = []
}

extension ImageCache {
    /// Downloads images into the cache before clients need them. Stops if its task is cancelled; completed images stay.
    ///
    /// - Parameters:
    ///   - requests: the images. Their priority is ignored
    ///   - concurrency: the maximum number of simultaneous requests, at least 1. The limits on downloads apply as well
    ///   - check: throws if the client may not have an image. Called before and after each request
    ///   - progress: called after each image
    package func prefetch(
        _ requests: [ImageRequest], concurrency: Int,
        check: @escaping @Sendable (ImageRequest) throws(ImageError) -> Void = { _ in },
        progress: @escaping @Sendable (PrefetchSummary) -> Void
    ) async -> PrefetchSummary {
        var summary = PrefetchSummary(total: requests.count)
        await withTaskGroup(of: (index: Int, result: Result<CachedImage, ImageError>).self) { group in
            var next = 0
            func add() {
                guard next < requests.count, !Task.isCancelled else { return }
                let index = next
                var request = requests[index]
                request.priority = .prefetch
                // No reference is taken, because a prefetched image may be evicted to make room for the next one.
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
                    if image.source == .hit { summary.cached += 1 } else { summary.fetched += 1 }
                    if image.source == .miss { summary.bytes += image.bytes }
                case .failure(let error):
                    // A request that ended because the prefetch was cancelled is not a failure.
                    if error.code == .cancelled, Task.isCancelled { continue }
                    summary.failures.append(PrefetchSummary.Failure(index: index, error: error))
                }
                progress(summary)
                add()
            }
        }
        summary.failures.sort { $0.index < $1.index }
        return summary
    }
}
