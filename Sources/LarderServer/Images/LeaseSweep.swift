import NIOCore

/// Ends the leases of an event loop's connections when their time is over: one timer for all of them.
final class LeaseSweep {
    /// The least time between two sweeps. A lease may last that much longer than was asked for.
    static let interval = TimeAmount.seconds(1)

    private let eventLoop: any EventLoop
    private var timer: Scheduled<Void>?
    private var next = NIODeadline.distantFuture
    private var last = NIODeadline.uptimeNanoseconds(0)
    /// Ends what is over at a time, and says when something is over next.
    var sweep: (NIODeadline) -> NIODeadline? = { _ in nil }

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    /// Takes note of a lease.
    func watch(until end: NIODeadline) {
        guard end < next else { return }
        timer?.cancel()
        next = max(end, last + Self.interval)
        timer = eventLoop.assumeIsolated().scheduleTask(deadline: next) { self.run() }
    }

    private func run() {
        timer = nil
        next = .distantFuture
        last = eventLoop.now
        if let end = sweep(last) { watch(until: end) }
    }
}
