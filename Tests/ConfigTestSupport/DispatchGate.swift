import Dispatch

/// A gate at which threads for blocking work wait until the test opens it.
package final class DispatchGate: Sendable {
    private let opened = DispatchSemaphore(value: 0)
    private let arrivals: AsyncStream<Void>
    private let arrive: AsyncStream<Void>.Continuation

    package init() { (arrivals, arrive) = AsyncStream.makeStream(of: Void.self) }

    /// Blocks the calling thread until a call of ``open()`` lets it pass.
    package func pass() {
        arrive.yield()
        opened.wait()
    }

    /// Waits until a thread has called ``pass()``. Each call of ``pass()`` ends one wait.
    package func waitForArrival() async {
        for await _ in arrivals { return }
    }

    /// Lets one thread pass.
    package func open() { opened.signal() }
}
