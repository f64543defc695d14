import Synchronization

/// Wakes one receiver, however many events occur. After a wake-up, each further event costs one atomic operation until
/// the receiver calls ``take()``. Any thread may raise events.
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

    /// Makes a signal for a task. The stream has an element for each wake-up and ends after ``finish()``.
    package static func makeStream() -> (signal: Signal, wakeUps: AsyncStream<Void>) {
        let (wakeUps, continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        return (Signal(wake: { _ in continuation.yield() }, end: { continuation.finish() }), wakeUps)
    }

    /// Wakes the receiver, unless a previous wake-up has not been followed by ``take()``.
    package func raise() {
        if !isRaised.exchange(true, ordering: .acquiringAndReleasing) { wake(self) }
    }

    /// Resets the signal. The receiver calls this before it reads the state that the events are about, so that no event
    /// is missed.
    /// - Returns: whether the signal was raised since the last call
    @discardableResult
    package func take() -> Bool { isRaised.exchange(false, ordering: .acquiringAndReleasing) }

    /// Ends the signal: no further events follow.
    package func finish() { end() }
}
