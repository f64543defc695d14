package import LarderEventLoop
package import NIOCore

/// An event loop that serves connections. Tests use implementations with a clock that the tests control.
package protocol ServerEventLoop: EventLoop {
    /// The number of the current iteration; nil if each event counts as an iteration of its own.
    var iteration: Int? { get }

    /// Runs `work` after all connections with input have been served. Called on the loop.
    func deferWork(_ work: @escaping () -> Void)

    /// Creates an executor whose tasks run on the loop.
    /// - Parameter runsInPlace: called on the loop when a task that is running on the loop makes a task of the executor
    ///   ready. If the closure returns true, the ready task continues immediately, before the running task proceeds;
    ///   otherwise it continues after the work that is already queued.
    func makeTaskExecutor(runsInPlace: @escaping @Sendable () -> Bool) -> any TaskExecutor
}

extension ServerEventLoop {
    /// Runs `body` for each item, then `end`. Defers the remaining items at the end of each time slice.
    func forEachInSlices<Item>(
        _ items: [Item], from start: Int = 0, _ body: @escaping (Item) -> Void,
        andThen end: @escaping () -> Void
    ) {
        let slice = TimeSlice()
        for index in start..<items.count {
            body(items[index])
            guard index + 1 < items.count, slice.isOver else { continue }
            return deferWork { self.forEachInSlices(items, from: index + 1, body, andThen: end) }
        }
        end()
    }
}

extension EpollLoop: ServerEventLoop {
    package var iteration: Int? { iterationNumber }

    package func makeTaskExecutor(runsInPlace: @escaping @Sendable () -> Bool) -> any TaskExecutor {
        LoopTaskExecutor(self, runsInPlace: runsInPlace)
    }
}
