import Dispatch

/// Holds a thread that does blocking work until the test lets it go on.
package final class DispatchGate: Sendable {
    private let opened = DispatchSemaphore(value: 0)
    private let arrivals: AsyncStream<Void>
    private let arrive: AsyncStream<Void>.Continuation

    package init() { (arrivals, arrive) = AsyncStream.makeStream(of: Void.self) }

    /// Called by the thread: waits for ``open()``.
    package func pass() {
        arrive.yield()
        opened.wait()
    }

    /// Returns once a thread stands at the gate.
    package func waitForArrival() async {
        for await _ in arrivals { return }
    }

    /// Lets one thread through.
    package func open() { opened.signal() }
}
