import Dispatch

/// Holds a thread that does blocking work until the test lets it go on.
final class DispatchGate: Sendable {
    private let opened = DispatchSemaphore(value: 0)
    private let arrivals: AsyncStream<Void>
    private let arrive: AsyncStream<Void>.Continuation

    init() { (arrivals, arrive) = AsyncStream.makeStream(of: Void.self) }

    /// Called by the thread: waits for ``open()``.
    func pass() {
        arrive.yield()
        opened.wait()
    }

    /// Returns once a thread stands at the gate.
    func waitForArrival() async {
        for await _ in arrivals { return }
    }

    /// Lets one thread through.
    func open() { opened.signal() }
}
