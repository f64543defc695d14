import Foundation
import Synchronization

/// A loop of a test that runs in the background.
///
/// It has its own thread and is not a task: the task pool may have only two threads, and the other tests need them.
package final class BackgroundLoop: Sendable {
    private let isStopped = Atomic(false)

    package init() {}

    /// Calls `body` with 1, 2, 3, … until ``stop()``.
    package func start(_ body: @escaping @Sendable (Int) throws -> Void) {
        Thread.detachNewThread { [self] in
            var number = 0
            while !isStopped.load(ordering: .acquiring) {
                number += 1
                // An error is not reported here. Without new content, the reader of the files does not finish.
                try? body(number)
            }
        }
    }

    package func stop() { isStopped.store(true, ordering: .releasing) }
}
