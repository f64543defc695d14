import Synchronization

/// Wakes one receiver for any number of events. After a wake-up, further events cost one atomic operation each until the
/// receiver calls ``take()``. Events are raised by any thread.
package final class Signal: Sendable {
    private let isRaised = Atomic<Bool>(false)
    private let wake: @Sendable (Signal) -> Void
    private let end: @Sendable () -> Void

    /// - Parameters:
    ///   - wake: wakes the receiver. Called by the thread that raises the signal.
    ///   - end: called by ``finish()``
    package init(wake: @escaping @Sendable (Signal) -> Void, end: @escaping @Sendable () -> Void = {}) {
        self.wake = wake
        self.end = end
    }

    /// Makes a signal for a task, and the stream that has an element for each wake-up and ends with ``finish()``.
    package static func makeStream() -> (signal: Signal, wakeUps: AsyncStream<Void>) {
        let (wakeUps, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        return (Signal(wake: { _ in continuation.yield() }, end: { continuation.finish() }), wakeUps)
    }

    /// Wakes the receiver, unless it was woken and has not called ``take()`` since.
    package func raise() {
        if !isRaised.exchange(true, ordering: .acquiringAndReleasing) { wake(self) }
    }

    /// Takes note of all events so far. The receiver calls it before it reads what the events are about.
    /// - Returns: whether there were any since the last call.
    @discardableResult
    package func take() -> Bool { isRaised.exchange(false, ordering: .acquiringAndReleasing) }

    /// Tells the receiver that no further events follow.
    package func finish() { end() }
}
