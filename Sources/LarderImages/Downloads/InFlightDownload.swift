internal import LarderHTTPSemantics
internal import Synchronization

/// A queued or running download.
struct InFlightDownload: Sendable {
    let location: CacheLocation
    let url: String
    let expectedDigest: BlobDigest?
    /// Whether it fetches the image even if a current one is cached.
    let isUnconditional: Bool
    /// Whether it continues without waiters.
    var isBackground: Bool
    /// How often its origin had responded before it began.
    let responsesBefore: Int
    let progress: DownloadProgress
    /// The user whose downloads it counts towards: one that waits for it.
    var user: UInt32?
    var priority: ImagePriority
    /// When it last started, in seconds since 1970, and the number of bytes received by then.
    var start = (time: 0, received: 0)
    /// The error of its last attempt, if another one follows.
    var failure: ImageError?
    var waiters: Set<WaiterID> = []

    /// Bytes a second since it started. In its first second it is the maximum, so that no new download counts as slow.
    func speed(at now: Int) -> Int {
        now > start.time ? (progress.received - start.received) / (now - start.time) : .max
    }

    /// Whether a request may wait for it, because it needs no other condition and no other image.
    func serves(_ request: ImageRequest, unconditionally: Bool) -> Bool {
        (expectedDigest == nil || expectedDigest == request.expectedDigest) && (isUnconditional || !unconditionally)
    }
}

/// The result of waiting for a download.
enum DownloadWaitResult: Sendable {
    case image(CachedImage)
    case failed(ImageError)
    /// The download failed for a reason that concerns its own URL only: the request starts again, with its own.
    case retry
}

/// The number of received bytes of a body, and whether other users wait for the place of its download.
final class DownloadProgress: Sendable {
    private let bytes = Atomic(0)
    private let awaited = Atomic(false)
    private let total: ByteCounter

    /// - Parameter total: counts the bytes of all downloads
    init(total: ByteCounter) { self.total = total }

    /// Whether downloads of other users wait for the place.
    var isAwaited: Bool {
        get { awaited.load(ordering: .relaxed) }
        set { awaited.store(newValue, ordering: .relaxed) }
    }

    var received: Int { bytes.load(ordering: .relaxed) }

    func add(_ count: Int) {
        bytes.add(count, ordering: .relaxed)
        total.add(count)
    }
}

/// A number of bytes that only grows.
final class ByteCounter: Sendable {
    private let count = Atomic(0)

    var bytes: Int { count.load(ordering: .relaxed) }

    func add(_ bytes: Int) { count.add(bytes, ordering: .relaxed) }
}
