/// Which download comes next: the more urgent first, then the one that waits for longest, passing over origins that have as
/// many as they may. It does nothing itself: whoever owns it starts what ``next()`` names and says when that has ended.
///
/// Each origin has a lane, so that one with ten thousand prefetches costs the others nothing.
struct FlightQueue<ID: Hashable & Sendable>: Sendable {
    private struct Flight {
        let origin: String
        let arrival: Int
        var priority: ImagePriority
        var isRunning = false
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

    /// The limits. After a change, ``next()`` may have something; what runs goes on.
    var limits: FlightLimits
    private var flights: [ID: Flight] = [:]
    private var lanes: [String: Lane] = [:]
    private var arrivals = 0

    /// How many run.
    private(set) var running = 0
    /// How many wait.
    var queued: Int { flights.count - running }

    /// Makes an empty queue.
    init(limits: FlightLimits = FlightLimits()) { self.limits = limits }

    /// Adds a download at the end of its priority.
    ///
    /// - Parameters:
    ///   - id: what it is called here; must not be in the queue already
    ///   - origin: scheme, host and port of where it begins
    ///   - priority: that of the most urgent of those that wait for it
    mutating func add(_ id: ID, origin: String, priority: ImagePriority) {
        guard flights[id] == nil else { return }
        arrivals += 1
        let flight = Flight(origin: origin, arrival: arrivals, priority: priority)
        flights[id] = flight
        enqueue(id, flight)
    }

    /// The download to start now, which counts as running from then on; nothing if none may start. Call it until there is
    /// nothing, after each change.
    mutating func next() -> ID? {
        guard running < limits.total else { return nil }
        var best: (id: ID, arrival: Int, priority: ImagePriority)?
        for lane in lanes.values where lane.running < limits.perOrigin {
            guard let priority = mostUrgent(lane), let ticket = lane.waiting[Int(priority.rawValue)].first else {
                continue
            }
            if let best, (best.priority, -best.arrival) > (priority, -ticket.arrival) { continue }
            best = (ticket.id, ticket.arrival, priority)
        }
        guard let best, var flight = flights[best.id] else { return nil }
        dequeue(flight)
        flight.isRunning = true
        flights[best.id] = flight
        running += 1
        lanes[flight.origin]?.running += 1
        return best.id
    }

    /// Somebody more urgent joins; nothing happens if it is that urgent already, runs, or is unknown. It keeps its place in
    /// time.
    mutating func raise(_ id: ID, _ priority: ImagePriority) {
        if let flight = flights[id], flight.priority < priority { change(id, flight, to: priority) }
    }

    /// The most urgent one has left; nothing happens if it is no more urgent already, runs, or is unknown. It keeps its
    /// place in time.
    mutating func lower(_ id: ID, _ priority: ImagePriority) {
        if let flight = flights[id], flight.priority > priority { change(id, flight, to: priority) }
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
        running -= 1
        lanes[flight.origin]?.running -= 1
        forget(id, flight)
    }

    /// The priority that is next in a lane, if the places that are left are for it.
    private func mostUrgent(_ lane: Lane) -> ImagePriority? {
        guard let priority = ImagePriority.allCases.reversed().first(where: { !lane.waiting[Int($0.rawValue)].isEmpty })
        else { return nil }
        // Whatever runs counts: the last places are for those that somebody waits for.
        let mayPrefetch = running < limits.prefetches && lane.running < limits.prefetchesPerOrigin
        return priority == .prefetch && !mayPrefetch ? nil : priority
    }

    private mutating func change(_ id: ID, _ flight: Flight, to priority: ImagePriority) {
        guard !flight.isRunning else { return }
        dequeue(flight)
        var changed = flight
        changed.priority = priority
        flights[id] = changed
        enqueue(id, changed)
    }

    private mutating func forget(_ id: ID, _ flight: Flight) {
        flights[id] = nil
        if lanes[flight.origin]?.isEmpty ?? false { lanes[flight.origin] = nil }
    }

    private mutating func enqueue(_ id: ID, _ flight: Flight) {
        let queue = Int(flight.priority.rawValue)
        let place = Self.place(of: flight.arrival, in: lanes[flight.origin]?.waiting[queue] ?? [])
        lanes[flight.origin, default: Lane()].waiting[queue].insert(Ticket(arrival: flight.arrival, id: id), at: place)
    }

    private mutating func dequeue(_ flight: Flight) {
        let queue = Int(flight.priority.rawValue)
        let place = Self.place(of: flight.arrival, in: lanes[flight.origin]?.waiting[queue] ?? [])
        lanes[flight.origin]?.waiting[queue].remove(at: place)
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

/// How many downloads may run at once.
public struct FlightLimits: Sendable, Hashable {
    /// All together, at least 1.
    public let total: Int
    /// From one origin (scheme, host and port), at least 1.
    public let perOrigin: Int

    /// Makes limits; 16, and 6 from one origin, unless told otherwise. Less than 1 counts as 1.
    public init(total: Int = 16, perOrigin: Int = 6) {
        self.total = max(1, total)
        self.perOrigin = max(1, perOrigin)
    }

    /// A prefetch starts only while fewer than this run, of whatever kind, so that four places stay free for those that
    /// somebody waits for. Where there are no more than four, it starts while nothing runs.
    var prefetches: Int { max(1, total - 4) }

    /// The same for one origin, where two places stay free.
    var prefetchesPerOrigin: Int { max(1, perOrigin - 2) }
}
