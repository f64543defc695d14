import LarderJSON
import LarderPlatform
import LarderProtocol
import NIOCore
import Synchronization

/// The content of a notification `image.progress`.
protocol ProgressNotification: Sendable, Equatable {
    /// Writes the complete notification, without a line end.
    func write(to writer: inout JSONWriter)
}

extension ImageProgress: ProgressNotification {}
extension ImageGet.Progress: ProgressNotification {}

/// Reports the progress of a request to a client: at most ten times per second, not while output is pending, and
/// always at the end.
final class ProgressNotifier<Progress: ProgressNotification> {
    /// The minimum time between two notifications.
    static var interval: TimeAmount { .milliseconds(100) }

    private let eventLoop: any EventLoop
    private let isOutputPending: () -> Bool
    private let send: (Progress) -> Void
    private var newest: Progress?
    private var sent: Progress?
    private var next = NIODeadline.uptimeNanoseconds(0)
    private var timer: Scheduled<Void>?
    private var hasEnded = false

    /// - Parameters:
    ///   - isOutputPending: returns whether output for the client is pending
    ///   - send: writes a notification
    init(
        on eventLoop: any EventLoop, isOutputPending: @escaping () -> Bool, send: @escaping (Progress) -> Void
    ) {
        self.eventLoop = eventLoop
        self.isOutputPending = isOutputPending
        self.send = send
    }

    /// Creates a notifier for the client of a connection.
    convenience init(to connection: Connection) {
        self.init(
            on: connection.loop.eventLoop, isOutputPending: { connection.output.isPending },
            send: { progress in
                if connection.phase == .closed { return }
                progress.write(to: &connection.loop.output.writer)
                connection.loop.output.writer.endLine()
                connection.output.flush()
            })
    }

    /// Records progress, and reports it now or later.
    func note(_ progress: Progress) {
        if hasEnded { return }
        newest = progress
        if timer == nil { report() }
    }

    /// Ends the reports.
    /// - Parameter last: the final progress, which is reported unless it was reported already; nil for no report
    func end(with last: Progress?) {
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

/// Passes progress from any thread to a notifier. Only the newest progress reaches its event loop.
struct ProgressRelay<Progress: ProgressNotification>: Sendable {
    private final class Newest: Sendable {
        /// Any thread writes it, and the event loop of the notifier reads it.
        let value = Mutex<Progress?>(nil)
    }

    private let newest = Newest()
    private let signal: Signal

    init(to notifier: ProgressNotifier<Progress>, on eventLoop: any EventLoop) {
        let (bound, newest) = (NIOLoopBound(notifier, eventLoop: eventLoop), newest)
        signal = Signal { signal in
            eventLoop.execute {
                signal.take()
                if let progress = newest.value.withLock({ $0 }) { bound.value.note(progress) }
            }
        }
    }

    /// The newest progress that was passed; nil before the first one.
    var last: Progress? { newest.value.withLock { $0 } }

    func pass(_ progress: Progress) {
        newest.value.withLock { $0 = progress }
        signal.raise()
    }
}
