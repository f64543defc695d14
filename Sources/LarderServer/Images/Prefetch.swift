import LarderImages
import LarderUpstream
import LarderWire

/// One `image.prefetch` at work: what the cache is asked for, and what is refused before.
struct Prefetch: Sendable {
    /// How far it is, refused images included.
    struct Progress: Sendable, Hashable {
        var done: Int
        var failed: Int
        var bytes: Int
        var total: Int

        /// As the notification says it.
        func wire(for request: RequestID) -> ImageProgress {
            ImageProgress(request: request, done: done, failed: failed, bytes: bytes, total: total)
        }
    }

    /// What it came to.
    struct Outcome: Sendable {
        var progress: Progress
        var result: ImagePrefetch.Result
        /// Whether it was not cancelled before its end.
        var isWhole: Bool { progress.done + progress.failed == progress.total }
    }

    private let images: ImageService
    /// What the cache is asked for, each with its place in the list and its line.
    private var asked: [(place: Int, line: Int?, request: ImageRequest)] = []
    /// By their places in the list.
    private var refused: [(place: Int, failure: ImagePrefetch.Failure)] = []

    /// Takes a list, or reads its manifest.
    /// - Throws: what is wrong with the manifest
    init(_ list: ImagePrefetch.List, _ images: ImageService, for peer: PeerCredentials) async throws(WireError) {
        self.images = images
        switch list {
        case .items(let items):
            for (place, item) in items.enumerated() { take(item, at: place, line: nil, for: peer) }
        case .manifest(let path):
            let manifest = try await images.blocking.run { () throws(WireError) in
                try ImageManifest(path: path, for: peer)
            }
            for (place, entry) in manifest.entries.enumerated() {
                switch entry.item {
                case .success(let item): take(item, at: place, line: entry.line, for: peer)
                case .failure(let error):
                    refused.append((place, ImagePrefetch.Failure(url: nil, line: entry.line, error: error)))
                }
            }
        }
    }

    private mutating func take(_ item: ImagePrefetch.Item, at place: Int, line: Int?, for peer: PeerCredentials) {
        do throws(WireError) {
            try images.check(peer, item.image.url)
            asked.append((place, line, ImageRequest(item)))
        } catch {
            refused.append((place, ImagePrefetch.Failure(url: item.image.url, line: line, error: error)))
        }
    }

    /// Carries it out.
    func run(concurrency: Int, progress: @escaping @Sendable (Progress) -> Void) async -> Outcome {
        let (refusedCount, total) = (refused.count, asked.count + refused.count)
        let summary = await images.cache.prefetch(asked.map(\.request), concurrency: concurrency) { now in
            progress(Progress(done: now.done, failed: now.failed + refusedCount, bytes: now.bytes, total: total))
        }
        let failed: [(place: Int, failure: ImagePrefetch.Failure)] = summary.failures.map { failure in
            let asked = asked[failure.index]
            let error = WireError(failure.error)
            return (asked.place, ImagePrefetch.Failure(url: asked.request.url, line: asked.line, error: error))
        }
        let failures = (refused + failed).sorted { $0.place < $1.place }.map(\.failure)
        let most = ImagePrefetch.Result.mostFailures
        return Outcome(
            progress: Progress(
                done: summary.fetched + summary.held, failed: failures.count, bytes: summary.bytes, total: total),
            result: ImagePrefetch.Result(
                total: total, fetched: summary.fetched, held: summary.held, failed: failures.count,
                bytes: summary.bytes, failures: Array(failures.prefix(most)),
                failuresOmitted: max(0, failures.count - most)))
    }
}
