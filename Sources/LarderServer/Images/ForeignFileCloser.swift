import CLinuxShims
import DequeModule
import Glibc
import Synchronization

/// Closes descriptors that clients passed and that are not of files in memory.
///
/// close(2) may wait for the program or the host that serves such a file (FUSE, NFS), as long as that likes. So neither an
/// event loop nor a thread that waits for the disk closes it, but a thread that exists only while there is something to close.
final class ForeignFileCloser: Sendable {
    private struct State {
        var waiting: Deque<(descriptor: CInt, done: @Sendable () -> Void)> = []
        var isRunning = false
    }

    private let state = Mutex(State())

    /// - Parameter done: called once the descriptor is closed, on the thread that closed it.
    func close(_ descriptor: CInt, then done: @escaping @Sendable () -> Void) {
        let mustStart = state.withLock { state in
            state.waiting.append((descriptor, done))
            defer { state.isRunning = true }
            return !state.isRunning
        }
        if mustStart { start() }
    }

    private func start() {
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(self)
        let result = pthread_create(
            &thread, nil,
            { argument in
                guard let argument else { return nil }
                larder_name_thread("close-passed")
                Unmanaged<ForeignFileCloser>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            }, argument.toOpaque())
        if result == 0 {
            pthread_detach(thread)
        } else {
            argument.release()
            // The next descriptor starts it. Until then these count as open files of their users.
            state.withLock { $0.isRunning = false }
        }
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
