import LarderImages
import LarderUpstream
import LarderProtocol

/// The work of an `image.prefetch`: the requests to the image cache, and the images that are refused without such a
/// request because the peer may not have them.
struct PrefetchJob: Sendable {
    private let images: ImageService
    private let rights: PeerRights
    /// The requests to the cache, each with the index of its image in the list.
    private var accepted: [(place: Int, request: ImageRequest)] = []
    /// The first images that are refused without a request, each with its index in the list, up to the maximum number
    /// of failures that a result lists.
    private var refused: [(place: Int, failure: ImagePrefetch.Failure)] = []
    private var refusedCount = 0

    init(_ items: [ImagePrefetch.Item], _ images: ImageService, for rights: PeerRights) {
        (self.images, self.rights) = (images, rights)
        for (place, item) in items.enumerated() {
            guard let denial = images.denial(of: item.image.url, to: rights) else {
                accepted.append((place, ImageRequest(item, for: rights)))
                continue
            }
            refusedCount += 1
            if refused.count < ImagePrefetch.Result.maxFailures {
                refused.append((place, ImagePrefetch.Failure(url: item.image.url, error: denial.error)))
            }
        }
    }

    /// The approximate memory that the job uses, in bytes.
    var retainedBytes: Int { accepted.reduce(0) { $0 + $1.request.url.utf8.count + Self.bytesOfImage } }
    private static let bytesOfImage = 512

    /// - Parameter progress: called with the figures of the result so far. Refused images count as failed.
    /// - Returns: the result. Its figures do not add up to the total if the job was cancelled.
    func run(
        concurrency: Int, progress: @escaping @Sendable (_ done: Int, _ failed: Int, _ bytes: Int, _ total: Int) -> Void
    ) async -> ImagePrefetch.Result {
        let (refusedCount, total) = (refusedCount, accepted.count + refusedCount)
        let (images, rights) = (images, rights)
        let summary = await images.cache.prefetch(
            accepted.map(\.request), concurrency: concurrency,
            check: { (request) throws(ImageError) in
                if let denial = images.denial(of: request.url, to: rights) {
                    throw ImageError(.denied, denial.error.detail)
                }
            },
            progress: { now in
                progress(now.fetched + now.cached, now.failures.count + refusedCount, now.bytes, total)
            })
        let failed: [(place: Int, failure: ImagePrefetch.Failure)] = summary.failures.map { failure in
            let accepted = accepted[failure.index]
            let error = WireError(failure.error)
            return (accepted.place, ImagePrefetch.Failure(url: accepted.request.url, error: error))
        }
        let listed = (refused + failed).sorted { $0.place < $1.place }.prefix(ImagePrefetch.Result.maxFailures)
        let count = refusedCount + failed.count
        return ImagePrefetch.Result(
            total: total, fetched: summary.fetched, cached: summary.cached, failed: count, bytes: summary.bytes,
            failures: listed.map(\.failure), failuresOmitted: count - listed.count)
    }
}
