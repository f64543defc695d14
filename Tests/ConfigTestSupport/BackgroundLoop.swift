import Foundation
import Synchronization

/// Calls a closure repeatedly on a separate thread, until it is stopped.
///
/// It does not use a task, which would occupy a thread of the task pool. The pool may have only two threads, and the
/// other tests need them.
package final class BackgroundLoop: Sendable {
    private let isStopped = Atomic(false)

    package init() {}

    /// Calls `body` with 1, 2, 3, … until ``stop()``. Errors are ignored.
    package func start(_ body: @escaping @Sendable (Int) throws -> Void) {
        Thread.detachNewThread { [self] in
            var number = 0
            while !isStopped.load(ordering: .acquiring) {
                number += 1
                // The error needs no report: the test waits for new content, and exceeds its time limit if that content
                // never comes.
                try? body(number)
            }
        }
    }

    package func stop() { isStopped.store(true, ordering: .releasing) }
}
