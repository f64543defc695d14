/// The events of a simulated fleet, by the second in which they are due.
struct FleetCalendar<Event> {
    private var seconds: [[Event]] = []
    /// The number of events of the current second that have been returned.
    private var position = 0

    mutating func add(_ event: Event, at due: Duration) {
        let second = Int(due.components.seconds)
        if second >= seconds.count { seconds += Array(repeating: [], count: second + 600 - seconds.count) }
        seconds[second].append(event)
    }

    /// Returns the next event of the current second, which may have been added while the one before it was handled;
    /// nil at the end of the second.
    mutating func next(in second: Int) -> Event? {
        guard second < seconds.count else { return nil }
        guard position < seconds[second].count else {
            seconds[second] = []
            position = 0
            return nil
        }
        defer { position += 1 }
        return seconds[second][position]
    }
}

/// What the hosts of the simulated fleets have in common.
enum FleetHost {
    /// The time of day at the start of a simulation, in 2023. It is not 0, because polling schedules count their intervals
    /// from time 0 (1970).
    static let start = Duration.seconds(1_700_000_000)

    /// The seed of the schedule of a host.
    static func seed(_ number: Int, _ seed: UInt64) -> String { "host-\(number)\u{0}https://config.example/\(seed)" }
}
