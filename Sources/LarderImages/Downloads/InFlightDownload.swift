internal import LarderHTTPSemantics
internal import Synchronization

/// A download that runs or is queued for a slot.
struct InFlightDownload: Sendable {
    let location: CacheLocation
    let url: String
    let expectedDigest: BlobDigest?
    /// Whether to download the image even if the cached one is current.
    let isUnconditional: Bool
    /// Whether the download continues without waiters.
    var isBackground: Bool
    /// The number of responses of the origin before the download began.
    let responsesBefore: Int
    let progress: DownloadProgress
    /// The user whose quota the download counts towards: a user who waits for it or, for a background download, the
    /// user whose request started it.
    var user: UInt32?
    var priority: ImagePriority
    /// The time of the last start in seconds since 1970, and the number of bytes received before it.
    var start = (time: 0, received: 0)
    /// The error of the last attempt, if another attempt follows.
    var failure: ImageError?
    var waiters: Set<WaiterID> = []

    /// Bytes per second since the last start. `Int.max` in the first second, so that a new download does not count as
    /// slow.
    func speed(at now: Int) -> Int {
        now > start.time ? (progress.received - start.received) / (now - start.time) : .max
    }

    /// Whether a request may wait for this download. The download must expect no digest or the same one as the request.
    /// If `unconditionally` is true, the download must be unconditional too.
    func serves(_ request: ImageRequest, unconditionally: Bool) -> Bool {
        (expectedDigest == nil || expectedDigest == request.expectedDigest) && (isUnconditional || !unconditionally)
    }
}

/// The result of waiting for a download.
enum DownloadWaitResult: Sendable {
    case image(CachedImage)
    case failed(ImageError)
    /// The result concerns only the URL of the download. A waiting request for the same image by another URL must be
    /// repeated.
    case retry
}

/// The progress of a download: the number of received bytes, and whether other users wait for its slot.
final class DownloadProgress: Sendable {
    private let bytes = Atomic(0)
    private let awaited = Atomic(false)
    private let total: ByteCounter

    /// - Parameter total: counts the bytes of all downloads
    init(total: ByteCounter) { self.total = total }

    /// Whether downloads of other users wait for the slot.
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

/// A byte count that only increases.
final class ByteCounter: Sendable {
    private let count = Atomic(0)

    var bytes: Int { count.load(ordering: .relaxed) }

    func add(_ bytes: Int) { count.add(bytes, ordering: .relaxed) }
}
