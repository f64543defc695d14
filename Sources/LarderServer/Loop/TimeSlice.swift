import NIOCore

/// The time that a piece of work may take before the other connections of its event loop are served. The rest of the
/// work is deferred (``LoopContext/deferWork(_:)``).
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
