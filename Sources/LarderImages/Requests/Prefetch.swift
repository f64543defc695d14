/// The progress of a prefetch.
package struct PrefetchProgress: Sendable, Hashable {
    /// Images that are cached now.
    package var done = 0
    /// Images that could not be downloaded.
    package var failed = 0
    /// Bytes of the downloaded images.
    package var bytes = 0
    /// Requested images.
    package let total: Int
}

/// The result of a prefetch. If it was cancelled, the numbers add up to less than ``total``.
package struct PrefetchSummary: Sendable, Hashable {
    /// An image that could not be downloaded.
    package struct Failure: Sendable, Hashable {
        /// The index of the request.
        package let index: Int
        package let error: ImageError
    }

    /// Requested images.
    package let total: Int
    /// Downloaded images.
    package var fetched = 0
    /// Images that were cached already.
    package var held = 0
    /// Bytes of the downloaded images.
    package var bytes = 0
    /// The failed images, in the order of the requests.
    package var failures: [Failure] = []
}

extension ImageCache {
    /// Downloads images that no client waits for. When its task is cancelled it stops; complete images stay.
    ///
    /// - Parameters:
    ///   - requests: the images; their priority is ignored
    ///   - concurrency: how many at once, at least 1; downloads have limits of their own
    ///   - check: throws if the requester may not have an image; called before and after its download
    ///   - progress: called after each image
    package func prefetch(
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
                // An image of the prefetch may be evicted for the next one.
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
                    // A cancelled request did not fail.
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
