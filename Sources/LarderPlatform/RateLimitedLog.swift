internal import Synchronization

/// A log that limits bursts of events. The first `burst` events of a key in each interval are logged at once. Further
/// events of that interval are combined into one line, which is logged at the end of the interval and counts towards
/// the `burst` of the next interval. The log forgets a key after an interval in which no event of the key was combined.
package final class RateLimitedLog<Key: Hashable & Sendable, Entry: Sendable>: Sendable {
    private struct Window {
        /// Identifies the window to its timer, which may still run after the log has forgotten the window.
        let id: Int
        let timer: Task<Void, Never>
        var lines = 0
        var pending: Entry?
        /// The number of events that have been combined into the entry `pending`.
        var count = 0
    }

    private struct State {
        var windows: [Key: Window] = [:]
        var lastID = 0
    }

    private let interval: Duration
    private let burst: Int
    private let clock: any Clock<Duration>
    private let write: @Sendable (Key, Entry, Int) -> Void
    /// Any thread adds events, and tasks end the intervals.
    private let state = Mutex(State())

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
        let entry: Entry? = state.withLock { state in
            var window = state.windows[key] ?? newWindow(of: key, &state)
            var entry: Entry?
            if window.lines < burst {
                window.lines += 1
                update(&entry)
            } else {
                window.count += 1
                update(&window.pending)
            }
            state.windows[key] = window
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

    private func newWindow(of key: Key, _ state: inout State) -> Window {
        state.lastID += 1
        let id = state.lastID
        return Window(id: id, timer: Task { await self.writeJoinedLines(of: key, window: id) })
    }

    private func takeAll() -> [Key: Window] {
        let taken = state.withLock { state in
            defer { state.windows = [:] }
            return state.windows
        }
        for window in taken.values { window.timer.cancel() }
        return taken
    }

    private func writeJoinedLines(of key: Key, window id: Int) async {
        while true {
            do { try await clock.sleep(for: interval) } catch { return }
            let line: (entry: Entry, count: Int)? = state.withLock { state in
                guard let window = state.windows[key], window.id == id else { return nil }
                guard let entry = window.pending else {
                    state.windows[key] = nil
                    return nil
                }
                state.windows[key] = Window(id: id, timer: window.timer, lines: 1)
                return (entry, window.count)
            }
            guard let line else { return }
            write(key, line.entry, line.count)
        }
    }
}
