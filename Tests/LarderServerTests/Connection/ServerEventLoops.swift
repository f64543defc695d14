import NIOCore
package import NIOEmbedded

@testable import LarderServer

/// Runs the jobs of tasks on a NIO event loop.
private final class NIOTaskExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    init(_ eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

extension EventLoop {
    fileprivate func deferred(_ work: @escaping () -> Void) { assumeIsolated().execute(work) }
}

extension EmbeddedEventLoop: ServerEventLoop {
    package var iteration: Int? { nil }
    package func deferWork(_ work: @escaping () -> Void) { deferred(work) }
    package func makeTaskExecutor(runsInPlace: @escaping @Sendable () -> Bool) -> any TaskExecutor {
        NIOTaskExecutor(self)
    }
}

extension NIOAsyncTestingEventLoop: ServerEventLoop {
    package var iteration: Int? { nil }
    package func deferWork(_ work: @escaping () -> Void) { deferred(work) }
    package func makeTaskExecutor(runsInPlace: @escaping @Sendable () -> Bool) -> any TaskExecutor {
        NIOTaskExecutor(self)
    }
}
