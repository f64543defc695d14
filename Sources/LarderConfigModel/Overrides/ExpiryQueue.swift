import HeapModule
import LarderEncoding

/// An override that expires. Paths are compared as bytes.
package struct ExpiringOverride: Sendable, Hashable {
    package var path: [String]
    /// In milliseconds since 1970.
    package var expiresAt: Int

    package init(path: [String], expiresAt: Int) {
        self.path = path
        self.expiresAt = expiresAt
    }

    package static func == (left: ExpiringOverride, right: ExpiringOverride) -> Bool {
        left.expiresAt == right.expiresAt && left.path.count == right.path.count
            && left.path.begins(withNames: right.path)
    }
}

/// The overrides that expire, ordered by time.
///
/// An override expires when its time of day is reached or when its lifetime has passed by uptime, whichever comes
/// first. The uptime matters if the clock is set back. The queue may contain overrides that have been replaced or
/// removed in the meantime.
package struct ExpiryQueue: Sendable {
    /// A time on both clocks, in milliseconds: the time of day since 1970, and the uptime.
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

    /// The number of queued overrides.
    package var count: Int { max(byTimeOfDay.count, byUptime.count) }

    /// The next time on each clock at which an override may expire; nil if no override is queued.
    package var next: Moment? {
        guard let timeOfDay = byTimeOfDay.min?.time, let uptime = byUptime.min?.time else { return nil }
        return Moment(timeOfDay: timeOfDay, uptime: uptime)
    }

    /// - Parameter uptime: the uptime at which the override expires, in milliseconds
    package mutating func insert(_ override: ExpiringOverride, uptime: Int) {
        byTimeOfDay.insert(Timed(time: override.expiresAt, override: override))
        byUptime.insert(Timed(time: uptime, override: override))
    }

    /// Adds an override whose remaining lifetime counts from `now`.
    package mutating func insert(_ override: ExpiringOverride, now: Moment) {
        insert(override, uptime: now.uptime + max(0, override.expiresAt - now.timeOfDay))
    }

    /// Removes and returns the overrides that have expired. An override that has expired by both clocks is returned
    /// twice.
    package mutating func popExpired(at now: Moment) -> [ExpiringOverride] {
        Self.pop(&byTimeOfDay) { $0.time <= now.timeOfDay } + Self.pop(&byUptime) { $0.time <= now.uptime }
    }

    /// Removes overrides, by whichever clock they are still queued.
    package mutating func remove(_ overrides: [ExpiringOverride]) {
        let removed = Set(overrides)
        byTimeOfDay = Heap(byTimeOfDay.unordered.filter { !removed.contains($0.override) })
        byUptime = Heap(byUptime.unordered.filter { !removed.contains($0.override) })
    }

    /// Removes the overrides at the front of the queue, as long as they have been replaced or removed in `layer`.
    package mutating func dropStale(comparedTo layer: OverrideLayer) {
        let isStale = { (timed: Timed) in
            layer.entry(at: timed.override.path)?.expiresAt != timed.override.expiresAt
        }
        _ = Self.pop(&byTimeOfDay, while: isStale)
        _ = Self.pop(&byUptime, while: isStale)
    }

    /// Replaces the queue with exactly the overrides of a layer. Those that were queued keep the uptime at which they
    /// expire.
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
