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
    /// The time of the last start in seconds of uptime, and the number of bytes received before it.
    var start = (time: 0, received: 0)
    /// The error of the last attempt, if another attempt follows.
    var failure: ImageError?
    var waiters: Set<WaiterID> = []
    /// The users who have requested exactly ``url``.
    var users: Set<UInt32> = []

    /// Bytes per second since the last start. `Int.max` in the first second, so that a new download does not count as
    /// slow.
    func speed(at now: Int) -> Int {
        now > start.time ? (progress.received - start.received) / (now - start.time) : .max
    }

    /// Describes the download for clients. In the first second since the last start, the rate is the number of bytes
    /// received in it.
    ///
    /// - Parameters:
    ///   - isQueued: whether the download waits for a slot
    ///   - now: the uptime in seconds
    func status(_ id: TransferID, isQueued: Bool, at now: Int) -> DownloadStatus {
        let size = progress.size
        let rate = isQueued ? 0 : (progress.received - start.received) / max(1, now - start.time)
        return DownloadStatus(
            id: id.number, url: url, isQueued: isQueued, receivedBytes: size.received, totalBytes: size.total,
            bytesPerSecond: rate, waiters: waiters.count, priority: priority, users: users)
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

/// A download in progress, as clients see it.
package struct DownloadStatus: Sendable, Hashable {
    /// Identifies the download as long as the agent runs.
    package let id: Int
    package let url: String
    /// Whether the download waits for a free slot.
    package let isQueued: Bool
    /// The number of bytes of the image received so far. Decreases if the download starts again.
    package let receivedBytes: Int
    /// The size of the image in bytes; nil until a response declares it.
    package let totalBytes: Int?
    /// The mean rate since the last start; 0 for a queued download.
    package let bytesPerSecond: Int
    /// The number of waiting requests.
    package let waiters: Int
    /// The highest priority of the waiting requests.
    package let priority: ImagePriority
    /// The users who have requested exactly ``url``. Others requested the image by another URL, or not at all, and must
    /// not see the query of this one, which may contain a signature.
    package let users: Set<UInt32>
}

/// The progress of a download. The thread that receives the bytes updates it, and any thread may read it.
final class DownloadProgress: Sendable {
    /// The part of the image that has been received.
    struct Size: Sendable, Hashable {
        /// The number of bytes received, including those of an earlier attempt that was resumed.
        var received = 0
        /// The size of the image in bytes; nil until a response declares it.
        var total: Int?
    }

    private let bytes = Atomic(0)
    private let awaited = Atomic(false)
    private let total: ByteCounter
    // A mutex, because the thread that receives the bytes changes the size, and others read it and add observers.
    private let state = Mutex(State())

    private struct State {
        var size = Size()
        var observers: [WaiterID: @Sendable (Size) -> Void] = [:]
    }

    /// - Parameter total: counts the bytes of all downloads
    init(total: ByteCounter) { self.total = total }

    /// Whether downloads of other users wait for the slot.
    var isAwaited: Bool {
        get { awaited.load(ordering: .relaxed) }
        set { awaited.store(newValue, ordering: .relaxed) }
    }

    /// The number of bytes received in all attempts.
    var received: Int { bytes.load(ordering: .relaxed) }

    /// The received part of the image.
    var size: Size { state.withLock { $0.size } }

    func add(_ count: Int) {
        bytes.add(count, ordering: .relaxed)
        total.add(count)
        change { $0.received += count }
    }

    /// Records that a response begins with the first byte of the image.
    ///
    /// - Parameter total: the size of the image in bytes; nil if the response does not declare it
    func begin(total: Int?) { change { $0 = Size(total: total) } }

    /// Records the size of an image whose rest is being received.
    func expect(_ total: Int) { change { $0.total = total } }

    /// Records that the received bytes were discarded.
    func discard() { if size != Size() { change { $0 = Size() } } }

    /// Calls a function now and after each change, on the thread that makes the change.
    func observe(_ waiter: WaiterID, _ report: @escaping @Sendable (Size) -> Void) {
        state.withLock { state in
            state.observers[waiter] = report
            // Under the lock, this call precedes that for a later change. Otherwise an old size could be reported last.
            report(state.size)
        }
    }

    /// Removes an observer. A call to it that has begun may still end later.
    func removeObserver(_ waiter: WaiterID) {
        state.withLock { $0.observers[waiter] = nil }
    }

    private func change(_ body: (inout Size) -> Void) {
        let (size, observers) = state.withLock { state in
            body(&state.size)
            return (state.size, state.observers)
        }
        for report in observers.values { report(size) }
    }
}

/// A byte count that only increases.
final class ByteCounter: Sendable {
    private let count = Atomic(0)

    var bytes: Int { count.load(ordering: .relaxed) }

    func add(_ bytes: Int) { count.add(bytes, ordering: .relaxed) }
}
