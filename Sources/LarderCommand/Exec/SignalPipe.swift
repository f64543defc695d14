import CLinuxShims
import LarderEncoding
import Synchronization
import Glibc

/// Delivers signals and notifications of other threads as bytes in a pipe, for which one thread can wait with poll(2).
///
/// signalfd(2) would require that every thread blocks the signals, but the main thread waits with an empty mask
/// (sigsuspend(2) in dispatch_main). A signal handler is global to the process, so there can be only one pipe per
/// process.
final class SignalPipe: Sendable {
    enum Message: Equatable {
        /// A signal arrived.
        case signal(CInt)
        /// Another thread called ``notify()``.
        case notification
    }

    private let ends: (read: CInt, write: CInt)

    /// The descriptor to which the signal handlers write; -1 before a pipe is created. It does not change afterwards.
    private static let handlersEnd = Atomic<CInt>(-1)
    private static let notification: UInt8 = 0

    init() throws(Failure) {
        var ends: [CInt] = [-1, -1]
        // The pipe is non-blocking, because a signal handler must not block. A byte that does not fit into a full pipe
        // is lost, but the bytes in the pipe wake the reader.
        guard larder_pipe(&ends, true) == 0 else {
            throw Failure(.failure, "cannot create a pipe: \(String(cString: strerror(errno)))")
        }
        self.ends = (ends[0], ends[1])
        Self.handlersEnd.store(ends[1], ordering: .sequentiallyConsistent)
    }

    /// Installs a handler for each of the signals. The handler writes a message into the pipe, which replaces the
    /// signal's default action.
    func catchSignals(_ numbers: [CInt]) {
        for number in numbers {
            var action = sigaction()
            action.sa_flags = SA_RESTART
            action.__sigaction_handler.sa_handler = { number in
                // A signal handler may only make async-signal-safe calls (signal-safety(7)).
                let failure = errno
                var byte = UInt8(truncatingIfNeeded: number)
                _ = write(SignalPipe.handlersEnd.load(ordering: .relaxed), &byte, 1)
                errno = failure
            }
            sigaction(number, &action, nil)
        }
    }

    /// Wakes the thread in ``wait(_:)``.
    func notify() {
        var byte = Self.notification
        _ = write(ends.write, &byte, 1)
    }

    /// Waits until a message arrives or the timeout has passed. Returns all messages in the pipe.
    /// - Parameter timeout: the maximum time to wait; nil for no limit.
    func wait(_ timeout: Duration?) -> [Message] {
        // Milliseconds are rounded up, so that a wait does not end too early.
        var polled = pollfd(fd: ends.read, events: Int16(POLLIN), revents: 0)
        guard poll(&polled, 1, timeout.map { CInt(clamping: max(.zero, $0).milliseconds) } ?? -1) > 0 else { return [] }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = read(ends.read, &bytes, bytes.count)
        return bytes.prefix(max(0, count)).map { $0 == Self.notification ? .notification : .signal(CInt($0)) }
    }
}
