internal import LarderUpstream

/// Decides the order of downloads. It has no side effects: its owner starts the download that ``next()`` returns, and
/// reports when it has ended.
///
/// Prefetches come last. Otherwise the user with fewer running downloads comes first, then the user whose last start is
/// longest ago. Among a user's downloads, the more urgent comes first, then the older one. Origins and users that have
/// reached their limit are skipped.
///
/// The downloads of one user from one origin form a lane with its own queues, so that ten thousand prefetches of one
/// user do not slow down other users.
struct DownloadQueue<ID: Hashable & Sendable>: Sendable {
    private struct LaneID: Hashable {
        let origin: String
        let user: UInt32?
    }

    private struct Download {
        let origin: String
        var user: UInt32?
        let arrival: Int
        var priority: ImagePriority
        var isRunning = false

        var lane: LaneID { LaneID(origin: origin, user: user) }
    }

    /// A queued download. In each queue of a lane, the arrival numbers increase from the head to the end.
    private struct Ticket {
        let arrival: Int
        let id: ID
    }

    private struct Lane {
        /// One queue per priority.
        var waiting = [[Ticket]](repeating: [], count: ImagePriority.allCases.count)
        var running = 0
        var isEmpty: Bool { running == 0 && waiting.allSatisfy(\.isEmpty) }
    }

    /// The current load of a user.
    private struct Load {
        var downloads = 0
        var running = 0
        /// The sequence number of the user's last start.
        var lastStart = 0
    }

    private struct Candidate {
        let id: ID
        let lane: LaneID
        let priority: ImagePriority
        let arrival: Int
    }

    /// After a change, call ``next()``. Running downloads continue.
    var limits: DownloadLimits
    private var downloads: [ID: Download] = [:]
    private var lanes: [LaneID: Lane] = [:]
    private var users: [UInt32?: Load] = [:]
    private var runningPerOrigin: [String: Int] = [:]
    private var arrivals = 0
    private var starts = 0

    private(set) var runningIDs: Set<ID> = []
    var running: Int { runningIDs.count }
    var queued: Int { downloads.count - running }

    init(limits: DownloadLimits = DownloadLimits()) { self.limits = limits }

    // MARK: Adding and removing

    /// Adds a download to the end of the queue of its priority.
    ///
    /// - Parameters:
    ///   - id: must not be in the queue already
    ///   - origin: scheme, host and port of the URL
    ///   - user: the user whose quota it counts towards; nil for the agent itself, which has no quota
    ///   - priority: the highest priority of the waiting requests
    mutating func add(_ id: ID, origin: String, user: UInt32? = nil, priority: ImagePriority) {
        guard downloads[id] == nil else { return }
        arrivals += 1
        let download = Download(origin: origin, user: user, arrival: arrivals, priority: priority)
        downloads[id] = download
        users[user, default: Load()].downloads += 1
        enqueue(id, download)
    }

    /// Returns the download to start now and counts it as running; nil if none may start. After each change, call it
    /// until it returns nil.
    mutating func next() -> ID? {
        guard running < limits.total else { return nil }
        var best: Candidate?
        for (id, lane) in lanes where mayStart(id, lane) {
            guard let priority = highestPriority(id, lane), let ticket = lane.waiting[Int(priority.rawValue)].first
            else {
                continue
            }
            let candidate = Candidate(id: ticket.id, lane: id, priority: priority, arrival: ticket.arrival)
            if let best, isBefore(best, candidate) { continue }
            best = candidate
        }
        guard let best, var download = downloads[best.id] else { return nil }
        dequeue(download)
        download.isRunning = true
        downloads[best.id] = download
        countRunning(best.id, download, 1)
        starts += 1
        users[download.user]?.lastStart = starts
        return best.id
    }

    /// Removes a queued download.
    ///
    /// - Returns: false if the download is unknown or running. A running download keeps its slot until ``finish(_:)``
    mutating func cancel(_ id: ID) -> Bool {
        guard let download = downloads[id], !download.isRunning else { return false }
        dequeue(download)
        forget(id, download)
        return true
    }

    /// Removes a running download that has ended, and frees its slot.
    mutating func finish(_ id: ID) {
        guard let download = downloads[id], download.isRunning else { return }
        countRunning(id, download, -1)
        forget(id, download)
    }

    /// Queues a running download that was stopped. The download keeps its order of arrival.
    mutating func requeue(_ id: ID) {
        guard var download = downloads[id], download.isRunning else { return }
        countRunning(id, download, -1)
        download.isRunning = false
        downloads[id] = download
        enqueue(id, download)
    }

    // MARK: Changes

    /// Raises the priority of a download. The download keeps its order of arrival.
    mutating func raise(_ id: ID, _ priority: ImagePriority) {
        if let download = downloads[id], download.priority < priority {
            change(id, download) { $0.priority = priority }
        }
    }

    /// Lowers the priority of a download. The download keeps its order of arrival.
    mutating func lower(_ id: ID, _ priority: ImagePriority) {
        if let download = downloads[id], download.priority > priority {
            change(id, download) { $0.priority = priority }
        }
    }

    /// Counts a download towards the quota of another user.
    mutating func assign(_ id: ID, to user: UInt32?) {
        guard let download = downloads[id], download.user != user else { return }
        users[user, default: Load()].downloads += 1
        change(id, download) { $0.user = user }
        removeDownload(of: download.user)
    }

    /// Whether a user's next download takes precedence over that of `other`.
    func isLessLoaded(_ user: UInt32?, than other: UInt32?) -> Bool {
        let (load, otherLoad) = (users[user] ?? Load(), users[other] ?? Load())
        return (load.running, load.lastStart) < (otherLoad.running, otherLoad.lastStart)
    }

    func isRunning(_ id: ID) -> Bool { runningIDs.contains(id) }

    // MARK: Order

    private func mayStart(_ id: LaneID, _ lane: Lane) -> Bool {
        guard runningPerOrigin[id.origin, default: 0] < limits.perOrigin else { return false }
        guard id.user != nil else { return true }
        return users[id.user]?.running ?? 0 < limits.perUser && lane.running < limits.perOriginAndUser
    }

    /// The highest priority in a lane. Nil if the lane is empty, or if it has only prefetches and the free slots are
    /// reserved for other downloads.
    private func highestPriority(_ id: LaneID, _ lane: Lane) -> ImagePriority? {
        guard let priority = ImagePriority.allCases.reversed().first(where: { !lane.waiting[Int($0.rawValue)].isEmpty })
        else { return nil }
        // The limits of prefetches apply to the number of all running downloads, and not only to that of running
        // prefetches, because the last slots are for downloads with waiting requests.
        let mayPrefetch =
            running < limits.prefetches && runningPerOrigin[id.origin, default: 0] < limits.prefetchesPerOrigin
            && (id.user == nil || users[id.user]?.running ?? 0 < limits.prefetchesPerUser)
        return priority == .prefetch && !mayPrefetch ? nil : priority
    }

    private func isBefore(_ left: Candidate, _ right: Candidate) -> Bool {
        if (left.priority == .prefetch) != (right.priority == .prefetch) { return right.priority == .prefetch }
        if isLessLoaded(left.lane.user, than: right.lane.user) { return true }
        if isLessLoaded(right.lane.user, than: left.lane.user) { return false }
        return (right.priority, left.arrival) < (left.priority, right.arrival)
    }

    // MARK: Demand and preemption

    /// Users whose downloads wait for another user's download to end. Prefetches do not count.
    struct Demand: Sendable {
        /// Users whose downloads can start when any slot is free.
        fileprivate var anywhere: Set<UInt32?> = []
        /// By origin, users whose downloads can start only when a download from this origin has ended, because the
        /// limit of the origin is reached.
        fileprivate var atOrigin: [String: Set<UInt32?>] = [:]
    }

    /// The users that wait now. Read it only after ``next()`` has returned nil.
    var demand: Demand {
        var demand = Demand()
        guard queued > 0 else { return demand }
        for (id, lane) in lanes {
            let hasRequests = lane.waiting.dropFirst().contains { !$0.isEmpty }
            let hasReachedLimit =
                id.user != nil
                && (users[id.user]?.running ?? 0 >= limits.perUser || lane.running >= limits.perOriginAndUser)
            guard hasRequests, !hasReachedLimit else { continue }
            if runningPerOrigin[id.origin, default: 0] >= limits.perOrigin {
                demand.atOrigin[id.origin, default: []].insert(id.user)
            } else {
                demand.anywhere.insert(id.user)
            }
        }
        return demand
    }

    /// Whether another user waits for the slot of a running download.
    func isAwaited(_ id: ID, _ demand: Demand) -> Bool {
        guard let download = downloads[id] else { return false }
        let waiting = demand.anywhere.union(demand.atOrigin[download.origin] ?? [])
        return waiting.contains { $0 != download.user }
    }

    /// The slowest running download of lower priority whose end would let a waiting download of priority `high` start;
    /// nil if there is none. It belongs to the user of the waiting download, or to a user with more running downloads.
    /// Call it after ``next()`` has returned nil.
    ///
    /// - Parameter speed: returns the bytes per second of a running download
    func preemption(speed: (ID) -> Int) -> ID? {
        let high = Int(ImagePriority.high.rawValue)
        let waiting = lanes.compactMap { id, lane in
            lane.waiting[high].first.map { Candidate(id: $0.id, lane: id, priority: .high, arrival: $0.arrival) }
        }
        for candidate in waiting.sorted(by: isBefore) {
            let slowest =
                runningIDs
                .filter { id in downloads[id].map { mayPreempt($0, for: candidate.lane) } ?? false }
                .min { speed($0) < speed($1) }
            if let slowest { return slowest }
        }
        return nil
    }

    private func mayPreempt(_ download: Download, for lane: LaneID) -> Bool {
        let load = users[lane.user]?.running ?? 0
        let isSameUser = download.user == lane.user
        guard download.priority < .high, isSameUser || users[download.user]?.running ?? 0 > load else { return false }
        let isSameOrigin = download.origin == lane.origin
        // Ending `download` frees one slot, which must suffice for each limit that is reached.
        func isEnough(_ running: Int, _ limit: Int, _ counts: Bool) -> Bool {
            running < limit || running == limit && counts
        }
        guard isEnough(running, limits.total, true),
            isEnough(runningPerOrigin[lane.origin, default: 0], limits.perOrigin, isSameOrigin)
        else { return false }
        guard lane.user != nil else { return true }
        return isEnough(load, limits.perUser, isSameUser)
            && isEnough(lanes[lane]?.running ?? 0, limits.perOriginAndUser, isSameUser && isSameOrigin)
    }

    // MARK: Bookkeeping

    private mutating func change(_ id: ID, _ download: Download, _ body: (inout Download) -> Void) {
        var changed = download
        body(&changed)
        downloads[id] = changed
        if download.isRunning {
            countRunning(id, download, -1)
            removeIfEmpty(download.lane)
            countRunning(id, changed, 1)
        } else {
            dequeue(download)
            removeIfEmpty(download.lane)
            enqueue(id, changed)
        }
    }

    private mutating func countRunning(_ id: ID, _ download: Download, _ sign: Int) {
        if sign > 0 { runningIDs.insert(id) } else { runningIDs.remove(id) }
        lanes[download.lane, default: Lane()].running += sign
        users[download.user, default: Load()].running += sign
        let running = runningPerOrigin[download.origin, default: 0] + sign
        runningPerOrigin[download.origin] = running == 0 ? nil : running
    }

    private mutating func forget(_ id: ID, _ download: Download) {
        downloads[id] = nil
        removeIfEmpty(download.lane)
        removeDownload(of: download.user)
    }

    private mutating func removeDownload(of user: UInt32?) {
        users[user]?.downloads -= 1
        if users[user]?.downloads == 0 { users[user] = nil }
    }

    private mutating func removeIfEmpty(_ lane: LaneID) {
        if lanes[lane]?.isEmpty ?? false { lanes[lane] = nil }
    }

    private mutating func enqueue(_ id: ID, _ download: Download) {
        let queue = Int(download.priority.rawValue)
        // The search starts at the end, because most downloads arrived last.
        let previous = lanes[download.lane]?.waiting[queue].lastIndex { $0.arrival < download.arrival }
        lanes[download.lane, default: Lane()].waiting[queue].insert(
            Ticket(arrival: download.arrival, id: id), at: previous.map { $0 + 1 } ?? 0)
    }

    private mutating func dequeue(_ download: Download) {
        let queue = Int(download.priority.rawValue)
        lanes[download.lane]?.waiting[queue].removeAll { $0.arrival == download.arrival }
    }
}

/// Limits on the number of simultaneous downloads, on their minimum speed, and on the silence of their origins.
package struct DownloadLimits: Sendable, Hashable {
    /// The maximum number of downloads, at least 1.
    package let total: Int
    /// The maximum number of downloads from one origin (scheme, host and port), at least 1.
    package let perOrigin: Int
    /// The maximum number of downloads for one user, at least 1.
    package let perUser: Int
    /// The minimum rate in bytes per second, measured over ten seconds. Slower downloads are aborted.
    package let minimumRate: Int
    /// The minimum rate in bytes per second of a download while another user waits for its slot.
    package let minimumRateWhileAwaited: Int
    /// The longest time in seconds for which an origin may send nothing. Downloads with a longer silence are aborted.
    package let maxSilenceSeconds: Int

    /// Creates limits. Values below 1 count as 1.
    ///
    /// - Parameters:
    ///   - total: 16 by default
    ///   - perOrigin: 6 by default
    ///   - perUser: by default half of `total`, rounded up
    ///   - minimumRate: 1,000 by default
    ///   - minimumRateWhileAwaited: 16,000 by default
    ///   - maxSilenceSeconds: 10 by default
    package init(
        total: Int = 16, perOrigin: Int = 6, perUser: Int? = nil, minimumRate: Int = 1000,
        minimumRateWhileAwaited: Int = 16_000, maxSilenceSeconds: Int = 10
    ) {
        self.total = max(1, total)
        self.perOrigin = max(1, perOrigin)
        self.perUser = max(1, perUser ?? (self.total + 1) / 2)
        self.minimumRate = max(1, minimumRate)
        self.minimumRateWhileAwaited = max(1, minimumRateWhileAwaited)
        self.maxSilenceSeconds = max(1, maxSilenceSeconds)
    }

    var slowest: TransferRate { TransferRate(bytes: minimumRate * 10, in: .seconds(10)) }
    var slowestWhileAwaited: TransferRate { TransferRate(bytes: minimumRateWhileAwaited * 10, in: .seconds(10)) }

    /// The maximum number of downloads of one user from one origin. It leaves one slot of the origin to other users,
    /// unless ``perOrigin`` is 1.
    var perOriginAndUser: Int { max(1, perOrigin - 1) }

    /// A prefetch starts only while fewer downloads than this are running. This leaves four slots for downloads with
    /// waiting requests. If `total` is 5 or less, a prefetch starts only while no download is running.
    var prefetches: Int { max(1, total - 4) }

    /// A prefetch starts only while fewer downloads than this are running from its origin. This leaves two slots of the
    /// origin for downloads with waiting requests. If `perOrigin` is 3 or less, a prefetch starts only while no
    /// download from its origin is running.
    var prefetchesPerOrigin: Int { max(1, perOrigin - 2) }

    /// A prefetch starts only while fewer downloads than this are running for its user. This leaves two slots of the
    /// user for downloads with waiting requests. If `perUser` is 3 or less, a prefetch starts only while no download is
    /// running for its user.
    var prefetchesPerUser: Int { max(1, perUser - 2) }
}
