internal import Synchronization

/// A log that limits bursts of events. The first `burst` events of a key in each interval are logged at once. Further
/// events of that interval are combined into one line, which is logged at the end of the interval and counts towards
/// the `burst` of the next interval. The log forgets a key after an interval in which no event of the key was combined.
package final class RateLimitedLog<Key: Hashable & Sendable, Entry: Sendable>: Sendable {
    private struct Window {
        var lines = 0
        var pending: Entry?
        /// The number of events that have been combined into the entry `pending`.
        var count = 0
        var timer: Task<Void, Never>?
    }

    private let interval: Duration
    private let burst: Int
    private let clock: any Clock<Duration>
    private let write: @Sendable (Key, Entry, Int) -> Void
    private let windows = Mutex<[Key: Window]>([:])

    /// - Parameters:
    ///   - interval: the length of an interval, which is the time between two combined lines of a key
    ///   - burst: the maximum number of lines per key and interval. The first events are logged at once until this
    ///     number is reached
    ///   - write: logs an entry that stands for the given number of events; called on any thread
    package init(
        every interval: Duration, burst: Int = 1, clock: any Clock<Duration> = ContinuousClock(),
        write: @escaping @Sendable (Key, Entry, Int) -> Void
    ) {
        (self.interval, self.burst, self.clock, self.write) = (interval, burst, clock, write)
    }

    /// Logs an event now or as part of a combined line.
    /// - Parameter update: adds the event to the entry that is passed to the closure. The entry is nil for the first
    ///   event of a line. The closure is called before this method returns, and must not call the log.
    /// - Returns: whether a line was logged now
    @discardableResult
    package func add(_ key: Key, _ update: (inout Entry?) -> Void) -> Bool {
        let entry: Entry? = windows.withLock { windows in
            var window = windows[key] ?? Window(timer: Task { await self.writeJoinedLines(of: key) })
            var entry: Entry?
            if window.lines < burst {
                window.lines += 1
                update(&entry)
            } else {
                window.count += 1
                update(&window.pending)
            }
            windows[key] = window
            return entry
        }
        guard let entry else { return false }
        write(key, entry, 1)
        return true
    }

    /// Logs the combined lines now and forgets all keys.
    package func flush() {
        for (key, window) in takeAll() {
            if let entry = window.pending { write(key, entry, window.count) }
        }
    }

    /// Forgets all keys and their combined events without logging them. The next event is logged at once.
    package func reset() { _ = takeAll() }

    private func takeAll() -> [Key: Window] {
        windows.withLock { windows in
            // The timers are canceled under the lock. A timer checks under the same lock whether it was canceled, so a
            // canceled timer does not change windows that are added later.
            for window in windows.values { window.timer?.cancel() }
            defer { windows = [:] }
            return windows
        }
    }

    private func writeJoinedLines(of key: Key) async {
        while true {
            do { try await clock.sleep(for: interval) } catch { return }
            let line: (entry: Entry, count: Int)? = windows.withLock { windows in
                if Task.isCancelled { return nil }
                guard let window = windows[key], let entry = window.pending else {
                    windows[key] = nil
                    return nil
                }
                windows[key] = Window(lines: 1, timer: window.timer)
                return (entry, window.count)
            }
            guard let line else { return }
            write(key, line.entry, line.count)
        }
    }
}
