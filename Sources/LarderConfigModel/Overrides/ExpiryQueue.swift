import HeapModule
import LarderEncoding

/// An override that expires.
package struct ExpiringOverride: Sendable, Equatable {
    package var path: [String]
    /// In milliseconds since 1970.
    package var expiresAt: Int

    package init(path: [String], expiresAt: Int) {
        self.path = path
        self.expiresAt = expiresAt
    }
}

/// The overrides that expire, the earliest first.
///
/// An override expires when its time of day has come, or when it has lasted as long as it was set for, whichever is first.
/// The second counts if the clock is set back. Overrides that were replaced or removed since may still be queued.
package struct ExpiryQueue: Sendable {
    /// When to look at the queue again: at a time of day or an uptime, in milliseconds.
    package struct Moment: Equatable {
        package var timeOfDay: Int
        package var uptime: Int

        package init(timeOfDay: Int, uptime: Int) {
            self.timeOfDay = timeOfDay
            self.uptime = uptime
        }

        package func advanced(by duration: Duration) -> Moment {
            Moment(timeOfDay: timeOfDay + duration.milliseconds, uptime: uptime + duration.milliseconds)
        }
    }

    private struct Timed: Comparable {
        let time: Int
        let override: ExpiringOverride

        static func < (left: Timed, right: Timed) -> Bool { left.time < right.time }
        static func == (left: Timed, right: Timed) -> Bool { left.time == right.time }
    }

    private var byTimeOfDay = Heap<Timed>()
    private var byUptime = Heap<Timed>()

    package init() {}

    /// How many are queued.
    package var count: Int { max(byTimeOfDay.count, byUptime.count) }

    /// The next moment at which an override may expire; nil if none is queued.
    package var next: Moment? {
        guard let timeOfDay = byTimeOfDay.min?.time, let uptime = byUptime.min?.time else { return nil }
        return Moment(timeOfDay: timeOfDay, uptime: uptime)
    }

    /// Adds an override.
    /// - Parameter uptime: the uptime at which it has lasted long enough, in milliseconds
    package mutating func insert(_ override: ExpiringOverride, uptime: Int) {
        byTimeOfDay.insert(Timed(time: override.expiresAt, override: override))
        byUptime.insert(Timed(time: uptime, override: override))
    }

    /// Adds an override that expires at its time of day if no clock is set.
    package mutating func insert(_ override: ExpiringOverride, now: Moment) {
        insert(override, uptime: now.uptime + max(0, override.expiresAt - now.timeOfDay))
    }

    /// Removes and returns those that have expired.
    package mutating func popExpired(at now: Moment) -> [ExpiringOverride] {
        Self.pop(&byTimeOfDay) { $0.time <= now.timeOfDay } + Self.pop(&byUptime) { $0.time <= now.uptime }
    }

    /// Removes those at the front that have been replaced or removed since.
    package mutating func dropStale(comparedTo layer: OverrideLayer) {
        let isStale = { (timed: Timed) in
            layer.entry(at: timed.override.path)?.expiresAt != timed.override.expiresAt
        }
        _ = Self.pop(&byTimeOfDay, while: isStale)
        _ = Self.pop(&byUptime, while: isStale)
    }

    /// Holds exactly the overrides of a layer. Those that were queued keep their uptime.
    package mutating func rebuild(from layer: OverrideLayer, now: Moment) {
        let known = Dictionary(byUptime.unordered.map { ($0.override.expiresAt, $0.time) }, uniquingKeysWith: min)
        self = ExpiryQueue()
        for entry in layer.expiringEntries {
            guard let end = entry.expiresAt else { continue }
            let override = ExpiringOverride(path: entry.path, expiresAt: end)
            if let uptime = known[end] { insert(override, uptime: uptime) } else { insert(override, now: now) }
        }
    }

    private static func pop(_ heap: inout Heap<Timed>, while isWanted: (Timed) -> Bool) -> [ExpiringOverride] {
        var popped: [ExpiringOverride] = []
        while let first = heap.min, isWanted(first) { popped.append(heap.removeMin().override) }
        return popped
    }
}
