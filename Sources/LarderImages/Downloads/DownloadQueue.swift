/// The order of downloads. It has no effects: its owner starts the download that ``next()`` returns, and reports its end.
///
/// Prefetches come after all others. Among users, one that has fewer downloads comes first, then the one
/// that started one longest ago. Among the downloads of a user the more urgent comes first, then the older one. Origins and
/// users that have reached their limit are passed over.
///
/// Each user has a lane at each origin, so that ten thousand prefetches of one user do not slow down the others.
struct DownloadQueue<ID: Hashable & Sendable>: Sendable {
    private struct LaneID: Hashable {
        let origin: String
        let user: UInt32?
    }

    private struct Flight {
        let origin: String
        var user: UInt32?
        let arrival: Int
        var priority: ImagePriority
        var isRunning = false

        var lane: LaneID { LaneID(origin: origin, user: user) }
    }

    /// A place in a lane; arrivals grow from its head to its end.
    private struct Ticket {
        let arrival: Int
        let id: ID
    }

    private struct Lane {
        /// One queue for each priority.
        var waiting = [[Ticket]](repeating: [], count: ImagePriority.allCases.count)
        var running = 0
        var isEmpty: Bool { running == 0 && waiting.allSatisfy(\.isEmpty) }
    }

    /// The share of a user.
    private struct Load {
        var flights = 0
        var running = 0
        /// The number of the last start of this user.
        var lastStart = 0
    }

    private struct Candidate {
        let id: ID
        let lane: LaneID
        let priority: ImagePriority
        let arrival: Int
    }

    /// The limits. After a change, ``next()`` may have something; what runs goes on.
    var limits: DownloadLimits
    private var flights: [ID: Flight] = [:]
    private var lanes: [LaneID: Lane] = [:]
    private var users: [UInt32?: Load] = [:]
    private var runningPerOrigin: [String: Int] = [:]
    private var arrivals = 0
    private var starts = 0

    /// The running downloads.
    private(set) var runningIDs: Set<ID> = []
    /// How many run.
    var running: Int { runningIDs.count }
    /// How many wait.
    var queued: Int { flights.count - running }

    /// Makes an empty queue.
    init(limits: DownloadLimits = DownloadLimits()) { self.limits = limits }

    // MARK: Coming and going

    /// Adds a download at the end of its priority.
    ///
    /// - Parameters:
    ///   - id: what it is called here; must not be in the queue already
    ///   - origin: scheme, host and port of where it begins
    ///   - user: whose downloads it counts among; nil for the agent itself, which has no limit
    ///   - priority: that of the most urgent of those that wait for it
    mutating func add(_ id: ID, origin: String, user: UInt32? = nil, priority: ImagePriority) {
        guard flights[id] == nil else { return }
        arrivals += 1
        let flight = Flight(origin: origin, user: user, arrival: arrivals, priority: priority)
        flights[id] = flight
        users[user, default: Load()].flights += 1
        enqueue(id, flight)
    }

    /// The download to start now, which counts as running from then on; nothing if none may start. Call it until there is
    /// nothing, after each change.
    mutating func next() -> ID? {
        guard running < limits.total else { return nil }
        var best: Candidate?
        for (id, lane) in lanes where mayStart(id, lane) {
            guard let priority = mostUrgent(id, lane), let ticket = lane.waiting[Int(priority.rawValue)].first else {
                continue
            }
            let candidate = Candidate(id: ticket.id, lane: id, priority: priority, arrival: ticket.arrival)
            if let best, isBefore(best, candidate) { continue }
            best = candidate
        }
        guard let best, var flight = flights[best.id] else { return nil }
        dequeue(flight)
        flight.isRunning = true
        flights[best.id] = flight
        countRunning(best.id, flight, 1)
        starts += 1
        users[flight.user]?.lastStart = starts
        return best.id
    }

    /// Forgets a download that waits.
    ///
    /// - Returns: whether it waited. If not, it is unknown or runs, and one that runs keeps its place until ``finish(_:)``
    mutating func cancel(_ id: ID) -> Bool {
        guard let flight = flights[id], !flight.isRunning else { return false }
        dequeue(flight)
        forget(id, flight)
        return true
    }

    /// A download that ran has ended, however it did; its place is free.
    mutating func finish(_ id: ID) {
        guard let flight = flights[id], flight.isRunning else { return }
        countRunning(id, flight, -1)
        forget(id, flight)
    }

    /// A download that ran was stopped and waits again. It keeps its place in time.
    mutating func requeue(_ id: ID) {
        guard var flight = flights[id], flight.isRunning else { return }
        countRunning(id, flight, -1)
        flight.isRunning = false
        flights[id] = flight
        enqueue(id, flight)
    }

    // MARK: Changes

    /// A more urgent request joins a download; nothing happens if it is that urgent already, or unknown. It keeps its place
    /// in time.
    mutating func raise(_ id: ID, _ priority: ImagePriority) {
        if let flight = flights[id], flight.priority < priority { change(id, flight) { $0.priority = priority } }
    }

    /// The most urgent request has left a download; nothing happens if it is no more urgent already, or unknown. It keeps
    /// its place in time.
    mutating func lower(_ id: ID, _ priority: ImagePriority) {
        if let flight = flights[id], flight.priority > priority { change(id, flight) { $0.priority = priority } }
    }

    /// Counts a download among those of another user.
    mutating func assign(_ id: ID, to user: UInt32?) {
        guard let flight = flights[id], flight.user != user else { return }
        users[user, default: Load()].flights += 1
        change(id, flight) { $0.user = user }
        removeFlight(of: flight.user)
    }

    /// Whether a user's next download starts before that of another one.
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

    /// The priority that is next in a lane, if the places that are left are for it.
    private func mostUrgent(_ id: LaneID, _ lane: Lane) -> ImagePriority? {
        guard let priority = ImagePriority.allCases.reversed().first(where: { !lane.waiting[Int($0.rawValue)].isEmpty })
        else { return nil }
        // All running downloads count: the last places are for downloads that a request waits for.
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

    // MARK: Places that others wait for

    /// Users whose downloads wait for the end of another user's. Prefetches do not count.
    struct Demand: Sendable {
        /// Users that wait for any place.
        fileprivate var anywhere: Set<UInt32?> = []
        /// Users that wait for a place at an origin.
        fileprivate var atOrigin: [String: Set<UInt32?>] = [:]
    }

    /// The demand after ``next()`` returned nil.
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

    /// Whether another user waits for the place of a download that runs.
    func isAwaited(_ id: ID, _ demand: Demand) -> Bool {
        guard let flight = flights[id] else { return false }
        let waiting = demand.anywhere.union(demand.atOrigin[flight.origin] ?? [])
        return waiting.contains { $0 != flight.user }
    }

    /// The slowest running download whose end lets a waiting one of priority `high` start, or nil. It belongs to the same
    /// user, or to one that has more running downloads. Call it after ``next()`` returned nil.
    ///
    /// - Parameter speed: bytes a second of a download that runs
    func preemption(speed: (ID) -> Int) -> ID? {
        let high = Int(ImagePriority.high.rawValue)
        let waiting = lanes.compactMap { id, lane in
            lane.waiting[high].first.map { Candidate(id: $0.id, lane: id, priority: .high, arrival: $0.arrival) }
        }
        for candidate in waiting.sorted(by: isBefore) {
            let slowest =
                runningIDs
                .filter { id in flights[id].map { mayPreempt($0, for: candidate.lane) } ?? false }
                .min { speed($0) < speed($1) }
            if let slowest { return slowest }
        }
        return nil
    }

    private func mayPreempt(_ flight: Flight, for lane: LaneID) -> Bool {
        let load = users[lane.user]?.running ?? 0
        let isSameUser = flight.user == lane.user
        guard flight.priority < .high, isSameUser || users[flight.user]?.running ?? 0 > load else { return false }
        let isSameOrigin = flight.origin == lane.origin
        // Its end frees one place, which must suffice for each limit that is reached.
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

    private mutating func change(_ id: ID, _ flight: Flight, _ body: (inout Flight) -> Void) {
        var changed = flight
        body(&changed)
        flights[id] = changed
        if flight.isRunning {
            countRunning(id, flight, -1)
            removeIfEmpty(flight.lane)
            countRunning(id, changed, 1)
        } else {
            dequeue(flight)
            removeIfEmpty(flight.lane)
            enqueue(id, changed)
        }
    }

    private mutating func countRunning(_ id: ID, _ flight: Flight, _ sign: Int) {
        if sign > 0 { runningIDs.insert(id) } else { runningIDs.remove(id) }
        lanes[flight.lane, default: Lane()].running += sign
        users[flight.user, default: Load()].running += sign
        let running = runningPerOrigin[flight.origin, default: 0] + sign
        runningPerOrigin[flight.origin] = running == 0 ? nil : running
    }

    private mutating func forget(_ id: ID, _ flight: Flight) {
        flights[id] = nil
        removeIfEmpty(flight.lane)
        removeFlight(of: flight.user)
    }

    private mutating func removeFlight(of user: UInt32?) {
        users[user]?.flights -= 1
        if users[user]?.flights == 0 { users[user] = nil }
    }

    private mutating func removeIfEmpty(_ lane: LaneID) {
        if lanes[lane]?.isEmpty ?? false { lanes[lane] = nil }
    }

    private mutating func enqueue(_ id: ID, _ flight: Flight) {
        let queue = Int(flight.priority.rawValue)
        let place = Self.place(of: flight.arrival, in: lanes[flight.lane]?.waiting[queue] ?? [])
        lanes[flight.lane, default: Lane()].waiting[queue].insert(Ticket(arrival: flight.arrival, id: id), at: place)
    }

    private mutating func dequeue(_ flight: Flight) {
        let queue = Int(flight.priority.rawValue)
        let place = Self.place(of: flight.arrival, in: lanes[flight.lane]?.waiting[queue] ?? [])
        lanes[flight.lane]?.waiting[queue].remove(at: place)
    }

    /// Where an arrival is or would be.
    private static func place(of arrival: Int, in tickets: [Ticket]) -> Int {
        var (low, high) = (0, tickets.count)
        while low < high {
            let middle = (low + high) / 2
            if tickets[middle].arrival < arrival { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
