import CLinuxShims
import DequeModule
import Glibc
import LarderPlatform
import Synchronization

/// Closes descriptors that clients passed, except those of files in memory, which threads for disk work close.
///
/// close(2) may wait indefinitely for the program or host that serves such a file (FUSE, NFS). It is therefore called
/// neither on an event loop nor on a thread for disk work, but on a separate thread. That thread exists only while
/// there are descriptors to close.
final class ForeignFileCloser: Sendable {
    private struct State {
        var waiting: Deque<(descriptor: CInt, done: @Sendable () -> Void)> = []
        var isRunning = false
    }

    private let state = Mutex(State())

    /// - Parameter done: called after the descriptor has been closed, on the closing thread
    func close(_ descriptor: CInt, then done: @escaping @Sendable () -> Void) {
        let mustStart = state.withLock { state in
            state.waiting.append((descriptor, done))
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart { start() }
    }

    /// Closes the waiting descriptors if their thread could not be started. Called after the limit of threads has permitted
    /// another thread.
    func retry() {
        let mustStart = state.withLock { state in
            if state.isRunning || state.waiting.isEmpty { return false }
            state.isRunning = true
            return true
        }
        if mustStart { start() }
    }

    private func start() {
        guard startThread("close-passed", { self.run() }) != 0 else { return }
        // The next call of ``close(_:then:)`` or ``retry()`` tries again to start the thread. Until then the waiting
        // descriptors count as open files of their users.
        state.withLock { $0.isRunning = false }
    }

    private func run() {
        while let next = next() {
            larder_close_passed(next.descriptor)
            next.done()
        }
    }

    private func next() -> (descriptor: CInt, done: @Sendable () -> Void)? {
        state.withLock { state in
            let next = state.waiting.popFirst()
            state.isRunning = next != nil
            return next
        }
    }
}
