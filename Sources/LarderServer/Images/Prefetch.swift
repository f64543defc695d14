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
    /// What is refused before, by its place in the list: the first of them, as many as are told.
    private var refused: [(place: Int, failure: ImagePrefetch.Failure)] = []
    private var refusedCount = 0

    /// Takes a list, or reads its manifest.
    /// - Throws: what is wrong with the manifest
    init(_ list: ImagePrefetch.List, _ images: ImageService, for peer: PeerCredentials) async throws(WireError) {
        self.images = images
        switch list {
        case .items(let items):
            for (place, item) in items.enumerated() { take(item, at: place, line: nil, for: peer) }
        case .manifest(let path):
            let manifest = try await images.manifests.read(path, for: peer)
            for (place, entry) in manifest.entries.enumerated() {
                if case .image(let item, let line) = entry {
                    take(item, at: place, line: line, for: peer)
                } else if let failure = entry.failure {
                    refuse(failure, at: place)
                }
            }
        }
    }

    /// What it takes in memory until it is carried out, and how much that is for one image beside its URL, about.
    var heldBytes: Int { asked.reduce(0) { $0 + $1.request.url.utf8.count + Self.bytesOfImage } }
    private static let bytesOfImage = 256

    private mutating func refuse(_ failure: @autoclosure () -> ImagePrefetch.Failure, at place: Int) {
        refusedCount += 1
        if refused.count < ImagePrefetch.Result.mostFailures { refused.append((place, failure())) }
    }

    private mutating func take(_ item: ImagePrefetch.Item, at place: Int, line: Int?, for peer: PeerCredentials) {
        do throws(WireError) {
            try images.check(peer, item.image.url)
            asked.append((place, line, ImageRequest(item)))
        } catch {
            refuse(ImagePrefetch.Failure(url: item.image.url, line: line, error: error), at: place)
        }
    }

    /// Carries it out.
    func run(concurrency: Int, progress: @escaping @Sendable (Progress) -> Void) async -> Outcome {
        let (refusedCount, total) = (refusedCount, asked.count + refusedCount)
        let summary = await images.cache.prefetch(asked.map(\.request), concurrency: concurrency) { now in
            progress(Progress(done: now.done, failed: now.failed + refusedCount, bytes: now.bytes, total: total))
        }
        let failed: [(place: Int, failure: ImagePrefetch.Failure)] = summary.failures.map { failure in
            let asked = asked[failure.index]
            let error = WireError(failure.error)
            return (asked.place, ImagePrefetch.Failure(url: asked.request.url, line: asked.line, error: error))
        }
        let told = (refused + failed).sorted { $0.place < $1.place }.prefix(ImagePrefetch.Result.mostFailures)
        let count = refusedCount + failed.count
        return Outcome(
            progress: Progress(
                done: summary.fetched + summary.held, failed: count, bytes: summary.bytes, total: total),
            result: ImagePrefetch.Result(
                total: total, fetched: summary.fetched, held: summary.held, failed: count, bytes: summary.bytes,
                failures: told.map(\.failure), failuresOmitted: count - told.count))
    }
}
