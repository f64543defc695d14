internal import LarderHTTPSemantics
internal import Synchronization

/// What a flight asks the network for.
struct DownloadOrder: Sendable {
    /// The bytes go into the cache, and what comes of it to whoever called.
    typealias Operation = @concurrent @Sendable (DownloadOrder) async throws(ImageError) -> ImageDownloader.Outcome

    let url: String
    /// The origin's credentials.
    let headers: [(name: String, value: String)]
    /// What is held, to ask whether it is current.
    let held: StoredResponse?
    let expectedDigest: BlobDigest?
    let room: RoomMaker
    let received: @Sendable (Int) -> Void
    /// Reports that an attempt failed and another one follows.
    let failed: @Sendable (ImageError) async -> Void
    /// Whether downloads of other users wait for the place of this one.
    let isAwaited: @Sendable () -> Bool
    /// The slowest transfers that are allowed.
    let limits: DownloadLimits
}

/// One image on its way, and those that wait for it.
struct InFlightDownload {
    /// What a request's wait ended with.
    enum Ending: Sendable {
        case image(CachedImage)
        case failed(ImageError)
        /// The flight failed by what only its own URL was to blame for: the request begins again, with its own.
        case again
    }

    struct Waiter {
        let request: ImageRequest
        let continuation: CheckedContinuation<Ending, Never>
        /// Whether the flight began for this one.
        let isFirst: Bool
    }

    let place: CacheLocation
    let url: String
    let expectedDigest: BlobDigest?
    /// Whether it fetches anew, whatever is held.
    let isUnconditional: Bool
    /// Whether it goes on although nobody waits for it.
    var isBackground: Bool
    /// How often its origin had answered before it began.
    let answersBefore: Int
    let progress = DownloadProgress()
    /// The user whose downloads it counts towards: one that waits for it.
    var user: UInt32?
    var priority: ImagePriority
    /// When it last started, in seconds since 1970, and the number of bytes received by then.
    var start = (time: 0, received: 0)
    /// The error of its last attempt, if another one follows.
    var failure: ImageError?
    var waiters: [Int: Waiter] = [:]
    /// Set once it has its place.
    var task: Task<Void, Never>?

    /// Bytes a second since it started. In its first second it is the maximum, so that no new flight counts as slow.
    func speed(at now: Int) -> Int {
        now > start.time ? (progress.received - start.received) / (now - start.time) : .max
    }

    /// Whether a request may wait for it: it would not want another condition, nor another image.
    func serves(_ request: ImageRequest, unconditionally: Bool) -> Bool {
        (expectedDigest == nil || expectedDigest == request.expectedDigest) && (isUnconditional || !unconditionally)
    }
}

/// The number of received bytes of a body, and whether other users wait for the place of its download.
final class DownloadProgress: Sendable {
    private let bytes = Atomic(0)
    private let awaited = Atomic(false)

    /// Whether downloads of other users wait for the place.
    var isAwaited: Bool {
        get { awaited.load(ordering: .relaxed) }
        set { awaited.store(newValue, ordering: .relaxed) }
    }

    var received: Int { bytes.load(ordering: .relaxed) }

    func add(_ count: Int) { bytes.add(count, ordering: .relaxed) }
}
