import LarderWire
import NIOCore
import Synchronization

/// Tells a client how far its prefetch has come: ten times a second at most, nothing while output waits for it, and the
/// end always.
final class PrefetchReport {
    /// The least time between two notifications.
    static let interval = TimeAmount.milliseconds(100)

    private let eventLoop: any EventLoop
    private let isOutputPending: () -> Bool
    private let send: (ImageProgress) -> Void
    private var newest: ImageProgress?
    private var sent: ImageProgress?
    private var next = NIODeadline.uptimeNanoseconds(0)
    private var timer: Scheduled<Void>?
    private var isOver = false

    /// Makes it.
    ///
    /// - Parameters:
    ///   - isOutputPending: whether something waits for the client
    ///   - send: writes a notification
    init(
        on eventLoop: any EventLoop, isOutputPending: @escaping () -> Bool, send: @escaping (ImageProgress) -> Void
    ) {
        self.eventLoop = eventLoop
        self.isOutputPending = isOutputPending
        self.send = send
    }

    /// Takes note of how far it is.
    func note(_ progress: ImageProgress) {
        if isOver { return }
        newest = progress
        if timer == nil { tell() }
    }

    /// Ends the report.
    /// - Parameter last: what is told in any case; nil for nothing more.
    func end(with last: ImageProgress?) {
        isOver = true
        timer?.cancel()
        timer = nil
        if let last, last != sent { send(last) }
    }

    private func tell() {
        guard let progress = newest else { return }
        let now = eventLoop.now
        guard now >= next, !isOutputPending() else { return tellLater(now) }
        (newest, sent) = (nil, progress)
        next = now + Self.interval
        send(progress)
    }

    private func tellLater(_ now: NIODeadline) {
        // Output that waits is looked at again after the same time: whoever reads slowly needs no more than that.
        let time = now >= next ? now + Self.interval : next
        timer = eventLoop.assumeIsolated().scheduleTask(deadline: time) {
            self.timer = nil
            self.tell()
        }
    }
}

/// Takes progress from any thread to the report's event loop: one hop at a time, with the newest.
final class ProgressMailbox<Progress: Sendable>: Sendable {
    private struct State {
        var newest: Progress?
        var isOnItsWay = false
    }

    private let state = Mutex(State())

    /// Puts progress in.
    /// - Returns: whether somebody has to be sent for it.
    func put(_ progress: Progress) -> Bool {
        state.withLock { state in
            state.newest = progress
            defer { state.isOnItsWay = true }
            return !state.isOnItsWay
        }
    }

    /// Takes the newest out.
    func take() -> Progress? {
        state.withLock { state in
            state.isOnItsWay = false
            defer { state.newest = nil }
            return state.newest
        }
    }
}
