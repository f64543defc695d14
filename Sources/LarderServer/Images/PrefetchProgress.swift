import LarderProtocol
import NIOCore

/// Reports the progress of a prefetch to a client: at most ten times per second, not while output is pending, and
/// always at the end.
final class PrefetchProgress {
    /// The minimum time between two notifications.
    static let interval = TimeAmount.milliseconds(100)

    private let eventLoop: any EventLoop
    private let isOutputPending: () -> Bool
    private let send: (ImageProgress) -> Void
    private var newest: ImageProgress?
    private var sent: ImageProgress?
    private var next = NIODeadline.uptimeNanoseconds(0)
    private var timer: Scheduled<Void>?
    private var hasEnded = false

    /// - Parameters:
    ///   - isOutputPending: returns whether output for the client is pending
    ///   - send: writes a notification
    init(
        on eventLoop: any EventLoop, isOutputPending: @escaping () -> Bool, send: @escaping (ImageProgress) -> Void
    ) {
        self.eventLoop = eventLoop
        self.isOutputPending = isOutputPending
        self.send = send
    }

    /// Records progress, and reports it now or later.
    func note(_ progress: ImageProgress) {
        if hasEnded { return }
        newest = progress
        if timer == nil { report() }
    }

    /// Ends the reports.
    /// - Parameter last: the final progress, which is reported unless it was reported already; nil for no report
    func end(with last: ImageProgress?) {
        hasEnded = true
        timer?.cancel()
        timer = nil
        if let last, last != sent { send(last) }
    }

    private func report() {
        guard let progress = newest else { return }
        let now = eventLoop.now
        guard now >= next, !isOutputPending() else { return reportLater(now) }
        (newest, sent) = (nil, progress)
        next = now + Self.interval
        send(progress)
    }

    private func reportLater(_ now: NIODeadline) {
        // A report that is due while output is pending is tried again after another interval.
        let time = now >= next ? now + Self.interval : next
        timer = eventLoop.assumeIsolated().scheduleTask(deadline: time) {
            self.timer = nil
            self.report()
        }
    }
}
