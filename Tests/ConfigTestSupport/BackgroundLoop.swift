import Foundation
import Synchronization

/// Calls a closure repeatedly on a separate thread, until it is stopped.
///
/// A task would occupy a thread of the task pool. The pool may have only two, and the other tests need them.
package final class BackgroundLoop: Sendable {
    private let isStopped = Atomic(false)

    package init() {}

    /// Calls `body` with 1, 2, 3, … until ``stop()``. Errors are ignored.
    package func start(_ body: @escaping @Sendable (Int) throws -> Void) {
        Thread.detachNewThread { [self] in
            var number = 0
            while !isStopped.load(ordering: .acquiring) {
                number += 1
                // A test whose writes keep failing exceeds its time limit, because it waits for new content.
                try? body(number)
            }
        }
    }

    package func stop() { isStopped.store(true, ordering: .releasing) }
}
