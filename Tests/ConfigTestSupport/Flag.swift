import Foundation
import Synchronization

/// Tells a thread of a test to come to its end.
package final class Flag: Sendable {
    private let value = Atomic(false)

    package init() {}

    package func raise() { value.store(true, ordering: .releasing) }

    /// Runs a body with 1, 2, 3, … until the flag is raised, on a thread of its own: on the threads that run tasks, of
    /// which there may be two, it would keep all tests waiting.
    package func repeatOnThread(_ body: @escaping @Sendable (Int) throws -> Void) {
        Thread.detachNewThread { [self] in
            var round = 0
            while !value.load(ordering: .acquiring) {
                round += 1
                // A failure shows in the reader, who then finds nothing new.
                try? body(round)
            }
        }
    }
}
