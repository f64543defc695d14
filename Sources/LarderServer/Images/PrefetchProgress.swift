import LarderProtocol
import NIOCore

/// Tells a client how far its prefetch has come: ten times a second at most, nothing while output waits for it, and the
/// end always.
final class PrefetchProgress {
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
