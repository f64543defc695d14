import LarderEventLoop
import NIOCore

/// An event loop that serves connections. The tests have others, whose time they control.
protocol ServerEventLoop: EventLoop {
    /// The number of the current iteration; nil if each piece of work counts as one.
    var iteration: Int? { get }

    /// Runs `work` after all connections with input were served. Called on the loop.
    func deferWork(_ work: @escaping () -> Void)

    /// Makes an executor whose tasks run on the loop.
    /// - Parameter runsInPlace: whether a step of such a task runs at once if a step of another task makes it ready.
    ///   Called on the loop
    func makeTaskExecutor(runsInPlace: @escaping @Sendable () -> Bool) -> any TaskExecutor
}

extension EpollLoop: ServerEventLoop {
    var iteration: Int? { round }

    func makeTaskExecutor(runsInPlace: @escaping @Sendable () -> Bool) -> any TaskExecutor {
        LoopTaskExecutor(self, runsInPlace: runsInPlace)
    }
}
