import NIOCore

/// The time that one piece of work may take before the other connections of its event loop are served. The rest of the
/// work is deferred (``LoopContext/deferWork(_:)``).
struct TimeSlice {
    private static let duration = TimeAmount.microseconds(50)

    private let end: NIODeadline

    /// Begins a time slice.
    init(now: NIODeadline = .now()) { end = now + Self.duration }

    var isOver: Bool { isOver(at: .now()) }

    func isOver(at now: NIODeadline) -> Bool { now >= end }
}

/// The time slice of the connection that is being served. It begins when it is first asked for: cached replies do
/// without the clock.
struct ServingSlice {
    private var slice: TimeSlice?
    /// The loop iteration in which it began.
    private var iteration = 0

    /// Serves another connection, or the same one again. Connections with events in the same iteration share a slice: each
    /// has its first line served, and the rest as long as there is time.
    /// - Parameter current: the loop iteration; nil for one of its own.
    mutating func begin(in current: Int?) {
        let current = current ?? iteration + 1
        if current == iteration { return }
        iteration = current
        slice = nil
    }

    /// Continues a connection with deferred work.
    mutating func beginDeferred() { slice = nil }

    /// Begins a slice that will be used up.
    mutating func beginNow() { slice = TimeSlice() }

    mutating func isOver() -> Bool {
        let now = NIODeadline.now()
        if let slice { return slice.isOver(at: now) }
        slice = TimeSlice(now: now)
        return false
    }
}
