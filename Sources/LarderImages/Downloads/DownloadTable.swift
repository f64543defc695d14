internal import LarderUpstream

/// Identifies a request that waits for a download.
struct WaiterID: Sendable, Hashable {
    let number: Int
}

/// The queued and running downloads, and the requests that wait for them.
///
/// The table has no side effects. Its owner starts the downloads that ``next(at:)`` returns, resumes the returned
/// continuations and cancels the returned tasks.
struct DownloadTable<Continuation: Sendable, Handle: Sendable>: Sendable {
    /// A request that waits for a download.
    struct Waiter: Sendable {
        let download: TransferID
        let request: ImageRequest
        let continuation: Continuation
        /// Whether this request started the download.
        let isFirst: Bool
    }

    /// A download that was removed from the table.
    struct Removed: Sendable {
        let download: InFlightDownload
        /// The requests that waited for it.
        let waiters: [Waiter]
    }

    /// The result of removing a waiter.
    struct WaiterRemoval: Sendable {
        let continuation: Continuation
        /// The running download to cancel if no other request waits for it; otherwise nil.
        var cancelled: Handle?
        /// Whether other downloads may start now.
        var mayStartOthers = false
    }

    /// The result of ending a running download.
    enum End: Sendable {
        /// The download was stopped in favor of a more urgent one, and is queued again.
        case requeued
        case removed(Removed)
        /// The download had already been removed, because its last waiter left.
        case abandoned
    }

    private var downloads: [TransferID: InFlightDownload] = [:]
    private var idsByKey: [ImageKey: [TransferID]] = [:]
    private var waiters: [WaiterID: Waiter] = [:]
    private var handles: [TransferID: Handle] = [:]
    private var queue: DownloadQueue<TransferID>
    /// The number of responses per origin. Reset when a download is added to an empty table.
    private var responses: [String: Int] = [:]
    /// The running download that is being stopped in favor of a more urgent one; nil if no download is being stopped.
    private var preempted: TransferID?
    private var lastTransfer = 0
    private var lastWaiter = 0
    private let received: ByteCounter

    /// - Parameter received: counts the bytes of all downloads
    init(limits: DownloadLimits, received: ByteCounter) {
        queue = DownloadQueue(limits: limits)
        self.received = received
    }

    /// After a change, call ``next(at:)``.
    var limits: DownloadLimits {
        get { queue.limits }
        set { queue.limits = newValue }
    }

    var isEmpty: Bool { downloads.isEmpty }
    /// The numbers of running and of queued downloads.
    var counts: (running: Int, queued: Int) { (queue.running, queue.queued) }
    var runningIDs: Set<TransferID> { queue.runningIDs }
    /// All downloads, oldest first.
    var ids: [TransferID] { downloads.keys.sorted() }

    subscript(id: TransferID) -> InFlightDownload? { downloads[id] }

    /// A download as clients see it; nil if it has ended.
    ///
    /// - Parameter now: seconds since 1970
    func status(of id: TransferID, at now: Int) -> DownloadStatus? {
        downloads[id]?.status(id, isQueued: isQueued(id), at: now)
    }

    /// The download that a request waits for; nil if the request does not wait.
    func download(awaitedBy waiter: WaiterID) -> InFlightDownload? {
        waiters[waiter].flatMap { downloads[$0.download] }
    }

    /// Whether a download waits for a slot.
    func isQueued(_ id: TransferID) -> Bool { handles[id] == nil }

    /// Returns an ID for a put or a new download.
    mutating func makeTransferID() -> TransferID {
        lastTransfer += 1
        return TransferID(number: lastTransfer)
    }

    mutating func makeWaiterID() -> WaiterID {
        lastWaiter += 1
        return WaiterID(number: lastWaiter)
    }

    // MARK: Requests

    /// The download that a request may wait for; nil if no download serves the request.
    func download(serving request: ImageRequest, for key: ImageKey, unconditionally: Bool) -> TransferID? {
        idsByKey[key]?.first { downloads[$0]?.serves(request, unconditionally: unconditionally) ?? false }
    }

    /// Adds a request as a waiter to a download that serves it, or to a new one.
    ///
    /// - Returns: whether the download is new
    mutating func join(
        _ waiter: WaiterID, _ request: ImageRequest, at location: CacheLocation, unconditionally: Bool,
        _ continuation: Continuation
    ) -> Bool {
        let known = download(serving: request, for: location.key, unconditionally: unconditionally)
        let id = known ?? begin(location, request, isUnconditional: unconditionally, isBackground: false)
        waiters[waiter] = Waiter(
            download: id, request: request, continuation: continuation, isFirst: known == nil)
        downloads[id]?.waiters.insert(waiter)
        guard known != nil, let download = downloads[id] else { return true }
        if let user = request.user, request.url.utf8.elementsEqual(download.url.utf8) {
            downloads[id]?.users.insert(user)
        }
        if download.priority < request.priority {
            downloads[id]?.priority = request.priority
            queue.raise(id, request.priority)
        }
        // A queued download counts towards the quota of one of the users who wait for it: the one whose downloads start
        // first.
        if !queue.isRunning(id), queue.isLessLoaded(request.user, than: download.user) { assign(id, to: request.user) }
        return false
    }

    /// Removes a waiter. A download without waiters ends, unless it is a background download.
    ///
    /// - Returns: nil if the waiter is unknown
    mutating func leave(_ waiter: WaiterID) -> WaiterRemoval? {
        guard let left = waiters.removeValue(forKey: waiter) else { return nil }
        let id = left.download
        downloads[id]?.waiters.remove(waiter)
        var removal = WaiterRemoval(continuation: left.continuation)
        guard let download = downloads[id] else { return removal }
        if download.waiters.isEmpty, !download.isBackground {
            // Remove the download, so that no new request waits for a download that is being cancelled.
            let handle = handles[id]
            remove(id)
            if !queue.cancel(id) { removal.cancelled = handle }
            removal.mayStartOthers = true
            return removal
        }
        let requests = download.waiters.compactMap { waiters[$0]?.request }
        if left.request.priority == download.priority {
            let priority = requests.map(\.priority).max() ?? .low
            downloads[id]?.priority = priority
            queue.lower(id, priority)
        }
        // A download must count towards the quota of a user who waits for it. It moves to another user when no request
        // of its present user is left.
        if !download.isBackground, left.request.user == download.user,
            !requests.contains(where: { $0.user == download.user }), let other = requests.first
        {
            assign(id, to: other.user)
            removal.mayStartOthers = true
        }
        return removal
    }

    /// Records that an attempt of a download failed and will be retried.
    ///
    /// - Returns: the waiting requests
    mutating func noteFailure(_ error: ImageError, of id: TransferID) -> [(id: WaiterID, request: ImageRequest)] {
        downloads[id]?.failure = error
        return downloads[id]?.waiters.compactMap { waiter in waiters[waiter].map { (waiter, $0.request) } } ?? []
    }

    /// Removes waiters of a download. If there are any, the download then continues in the background, even without
    /// waiters.
    mutating func detach(_ leaving: [WaiterID], from id: TransferID) -> [Continuation] {
        if !leaving.isEmpty { downloads[id]?.isBackground = true }
        downloads[id]?.waiters.subtract(leaving)
        return leaving.compactMap { waiters.removeValue(forKey: $0)?.continuation }
    }

    // MARK: Downloads

    /// Adds a background download without waiters, unless the image is already being downloaded.
    ///
    /// - Returns: whether the download was added
    mutating func beginInBackground(_ location: CacheLocation, url: String, user: UInt32?) -> Bool {
        guard idsByKey[location.key] == nil else { return false }
        _ = begin(
            location, ImageRequest(url: url, priority: .low, user: user), isUnconditional: false, isBackground: true)
        return true
    }

    private mutating func begin(
        _ location: CacheLocation, _ request: ImageRequest, isUnconditional: Bool, isBackground: Bool
    ) -> TransferID {
        if downloads.isEmpty { responses = [:] }
        let id = makeTransferID()
        let origin = location.address.origin
        downloads[id] = InFlightDownload(
            location: location, url: request.url, expectedDigest: request.expectedDigest,
            isUnconditional: isUnconditional, isBackground: isBackground,
            responsesBefore: responses[origin, default: 0], progress: DownloadProgress(total: received),
            user: request.user, priority: request.priority, users: request.user.map { [$0] } ?? [])
        idsByKey[location.key, default: []].append(id)
        queue.add(id, origin: origin, user: request.user, priority: request.priority)
        return id
    }

    private mutating func assign(_ id: TransferID, to user: UInt32?) {
        downloads[id]?.user = user
        queue.assign(id, to: user)
    }

    /// The download to start now, if any. Then call ``started(_:_:)``, and this method again.
    ///
    /// - Parameter now: the uptime in seconds
    mutating func next(at now: Int) -> TransferID? {
        guard let id = queue.next() else { return nil }
        if let download = downloads[id] { downloads[id]?.start = (now, download.progress.received) }
        return id
    }

    /// Records the task of a download that ``next(at:)`` returned.
    mutating func started(_ id: TransferID, _ handle: Handle) { if downloads[id] != nil { handles[id] = handle } }

    /// Returns the task of the slowest download if it should be stopped for a more urgent one. Call it after
    /// ``next(at:)`` has returned nil. Only one download is stopped at a time.
    mutating func preempt(at now: Int) -> Handle? {
        guard preempted == nil, let slowest = queue.preemption(speed: { downloads[$0]?.speed(at: now) ?? .max }) else {
            return nil
        }
        preempted = slowest
        return handles[slowest]
    }

    /// Sets for each running download whether another user waits for its slot.
    func updateDemand() {
        let demand = queue.demand
        for id in queue.runningIDs { downloads[id]?.progress.isAwaited = queue.isAwaited(id, demand) }
    }

    /// Ends a running download.
    ///
    /// - Parameter wasCancelled: whether its task was cancelled. If so, and if the download is still in the table, it
    ///   is queued again
    mutating func end(_ id: TransferID, wasCancelled: Bool) -> End {
        if preempted == id { preempted = nil }
        if wasCancelled, downloads[id] != nil {
            handles[id] = nil
            queue.requeue(id)
            return .requeued
        }
        queue.finish(id)
        return remove(id).map { .removed($0) } ?? .abandoned
    }

    /// Removes a download. If it is running, it keeps its slot until ``end(_:wasCancelled:)``.
    ///
    /// - Returns: the waiting requests, and the task to cancel if the download is running; nil if there is no such
    ///   download
    mutating func cancel(_ id: TransferID) -> (waiters: [Continuation], running: Handle?)? {
        let handle = handles[id]
        guard let removed = remove(id) else { return nil }
        return (removed.waiters.map(\.continuation), queue.cancel(id) ? nil : handle)
    }

    /// Removes all downloads. Running downloads keep their slots until ``end(_:wasCancelled:)``.
    mutating func removeAll() -> (waiters: [Continuation], running: [Handle]) {
        var (continuations, running): ([Continuation], [Handle]) = ([], [])
        for id in ids {
            guard let cancelled = cancel(id) else { continue }
            continuations += cancelled.waiters
            if let handle = cancelled.running { running.append(handle) }
        }
        return (continuations, running)
    }

    @discardableResult
    private mutating func remove(_ id: TransferID) -> Removed? {
        guard let download = downloads.removeValue(forKey: id) else { return nil }
        handles[id] = nil
        idsByKey[download.location.key]?.removeAll { $0 == id }
        if idsByKey[download.location.key]?.isEmpty ?? false { idsByKey[download.location.key] = nil }
        return Removed(download: download, waiters: download.waiters.compactMap { waiters.removeValue(forKey: $0) })
    }

    // MARK: Origins

    mutating func originResponded(_ origin: String) { responses[origin, default: 0] += 1 }

    /// Whether the origin of a download has sent anything since the download began, to this or another download.
    func isReachable(_ download: InFlightDownload) -> Bool {
        download.progress.received > 0
            || responses[download.location.address.origin, default: 0] > download.responsesBefore
    }
}
