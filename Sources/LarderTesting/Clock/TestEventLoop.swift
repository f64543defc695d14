import Dispatch
import LarderEventLoop
import LarderServer
import NIOCore
import Synchronization

/// The event loop of an agent. It shares the thread of an ``EpollLoop`` with other agents, and its timers follow the
/// clock of its agent.
final class TestEventLoop: ServerEventLoop {
    private let loop: EpollLoop
    private let clock: TestClock

    init(_ loop: EpollLoop, _ clock: TestClock) { (self.loop, self.clock) = (loop, clock) }

    var iteration: Int? { loop.iteration }
    func deferWork(_ work: @escaping () -> Void) { loop.deferWork(work) }
    func makeTaskExecutor(runsInPlace: @escaping @Sendable () -> Bool) -> any TaskExecutor {
        loop.makeTaskExecutor(runsInPlace: runsInPlace)
    }

    var inEventLoop: Bool { loop.inEventLoop }
    func execute(_ task: @escaping @Sendable () -> Void) { loop.execute(task) }

    func submit<T>(_ task: @escaping @Sendable () throws -> T) -> EventLoopFuture<T> {
        let promise = makePromise(of: T.self)
        execute { promise.assumeIsolated().completeWith(Result(catching: task)) }
        return promise.futureResult
    }

    // MARK: Timers

    /// A deadline at the offset zero of the clock. It is later than 0, so that no deadline is before the earliest
    /// possible one.
    private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    var now: NIODeadline { Self.start + TimeAmount(clock.now.offset) }

    func scheduleTask<T>(deadline: NIODeadline, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        let instant = TestClock.Instant(offset: .nanoseconds((deadline - Self.start).nanoseconds))
        return clock.schedule(task, on: self, at: instant, for: self)
    }

    func scheduleTask<T>(in time: TimeAmount, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        scheduleTask(deadline: now + time, task)
    }

    /// Cancels all timers. A timer retains the connections of its loop until it has ended.
    func cancelTimers() { clock.cancelAll(of: self) }

    /// Does nothing: the thread belongs to the process.
    func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {
        queue.async { callback(nil) }
    }
}

extension TestClock {
    /// Calls a function on an event loop when the clock reaches a time. As with a timer of SwiftNIO, the function is
    /// not called after the event loop has cancelled the timer, even if the time had been reached before.
    func schedule<T>(
        _ task: @escaping @Sendable () throws -> T, on eventLoop: any EventLoop, at instant: Instant,
        for owner: AnyObject
    ) -> Scheduled<T> {
        let promise = eventLoop.makePromise(of: T.self)
        let cancellation = Cancellation()
        let timer = schedule(at: instant, for: owner) { isDue in
            guard isDue else { return promise.fail(EventLoopError.cancelled) }
            eventLoop.execute {
                if cancellation.isRequested.load(ordering: .relaxed) { return }
                promise.assumeIsolated().completeWith(Result(catching: task))
            }
        }
        return Scheduled(promise: promise) {
            cancellation.isRequested.store(true, ordering: .relaxed)
            self.cancel(timer)
        }
    }
}

private final class Cancellation: Sendable {
    let isRequested = Atomic(false)
}
