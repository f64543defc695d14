package import LarderEventLoop
package import NIOCore

/// An event loop that serves connections. Tests use implementations with a clock that the tests control.
package protocol ServerEventLoop: EventLoop {
    /// The number of the current iteration; nil if each event counts as an iteration of its own.
    var iteration: Int? { get }

    /// Runs `work` after all connections with input have been served. Called on the loop.
    func deferWork(_ work: @escaping () -> Void)

    /// Creates an executor whose tasks run on the loop.
    /// - Parameter runsInPlace: called on the loop when a task that is running on the loop makes a task of the executor
    ///   ready. If the closure returns true, the ready task continues immediately, before the running task proceeds;
    ///   otherwise it continues after the work that is already queued.
    func makeTaskExecutor(runsInPlace: @escaping @Sendable () -> Bool) -> any TaskExecutor
}

extension ServerEventLoop {
    /// Runs `body` for each item, then `end`. Defers the remaining items at the end of each time slice.
    func forEachInSlices<Item>(
        _ items: [Item], from start: Int = 0, _ body: @escaping (Item) -> Void,
        andThen end: @escaping () -> Void
    ) {
        let slice = TimeSlice()
        for index in start..<items.count {
            body(items[index])
            guard index + 1 < items.count, slice.isOver else { continue }
            return deferWork { self.forEachInSlices(items, from: index + 1, body, andThen: end) }
        }
        end()
    }
}

extension EpollLoop: ServerEventLoop {
    package var iteration: Int? { iterationNumber }

    package func makeTaskExecutor(runsInPlace: @escaping @Sendable () -> Bool) -> any TaskExecutor {
        LoopTaskExecutor(self, runsInPlace: runsInPlace)
    }
}

/// The time that a piece of work may take before the other connections of its event loop are served. The rest of the
/// work is deferred (``ServerEventLoop/deferWork(_:)``).
struct TimeSlice {
    private static let duration = TimeAmount.microseconds(50)

    private let end: NIODeadline

    init(now: NIODeadline = .now()) { end = now + Self.duration }

    var isOver: Bool { isOver(at: .now()) }

    func isOver(at now: NIODeadline) -> Bool { now >= end }
}

/// The time slice of the connection that is being served. The slice begins with the first call of ``isOver()``.
/// ``isOver()`` is not called after a cached reply, so serving cached replies does not read the clock.
struct ServingSlice {
    private var slice: TimeSlice?
    /// The loop iteration in which the slice began.
    private var iteration = 0

    /// Begins to serve a connection, or continues to serve it. Connections with events in the same iteration share a
    /// slice: each has its first line served, and further lines while time remains.
    /// - Parameter current: the current loop iteration; nil to begin a separate slice
    mutating func begin(in current: Int?) {
        let current = current ?? iteration + 1
        if current == iteration { return }
        iteration = current
        slice = nil
    }

    /// Begins a new slice for a connection with deferred work.
    mutating func beginDeferred() { slice = nil }

    /// Begins a slice that starts now instead of with the first call of ``isOver()``, for work that is expected to use
    /// the whole slice.
    mutating func beginNow() { slice = TimeSlice() }

    mutating func isOver() -> Bool {
        let now = NIODeadline.now()
        if let slice { return slice.isOver(at: now) }
        slice = TimeSlice(now: now)
        return false
    }
}
