import Synchronization

/// Wakes one receiver, once for any number of events. After a wake-up, each further event costs only one atomic
/// operation, until the receiver calls ``take()``. Any thread may call ``raise()``.
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

    /// Makes a signal for a task that iterates over `wakeUps`. The stream has an element for each wake-up and ends
    /// after ``finish()``.
    package static func makeStream() -> (signal: Signal, wakeUps: AsyncStream<Void>) {
        let (wakeUps, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        return (Signal(wake: { _ in continuation.yield() }, end: { continuation.finish() }), wakeUps)
    }

    /// Wakes the receiver, but at most once between two calls of ``take()``.
    package func raise() {
        if !isRaised.exchange(true, ordering: .acquiringAndReleasing) { wake(self) }
    }

    /// Resets the signal. The receiver calls this before it reads the state that the events change. Otherwise it could
    /// miss an event.
    /// - Returns: whether the signal was raised since the last call of this method
    @discardableResult
    package func take() -> Bool { isRaised.exchange(false, ordering: .acquiringAndReleasing) }

    /// Ends the signal: no further events follow.
    package func finish() { end() }
}
