import CLinuxShims
import Synchronization
import Glibc

/// Signals, and news from other threads, as bytes of a pipe that one thread can wait for with poll(2).
///
/// signalfd(2) would need every thread to block the signals, and the main thread waits with an empty mask (sigsuspend(2)
/// in dispatch_main). There is one for the process, because there is one set of handlers.
final class SignalPipe: Sendable {
    /// What came.
    enum Message: Equatable {
        /// A signal.
        case signal(CInt, isFromKernel: Bool)
        /// Another thread has news.
        case news
    }

    private let ends: (read: CInt, write: CInt)

    /// Where the handlers write; a constant of the process once a pipe was made.
    private static let handlersEnd = Atomic<CInt>(-1)
    private static let news: UInt8 = 0
    private static let kernelBit: UInt8 = 0x80

    init() throws(Failure) {
        var ends: [CInt] = [-1, -1]
        // A handler must not wait; when the pipe is full there is something to be read in any case.
        guard larder_pipe(&ends, true) == 0 else {
            throw Failure(.failure, "cannot make a pipe: \(String(cString: strerror(errno)))")
        }
        self.ends = (ends[0], ends[1])
        Self.handlersEnd.store(ends[1], ordering: .sequentiallyConsistent)
    }

    /// Has signals come here instead of what they do by default.
    func catchSignals(_ numbers: [CInt]) {
        for number in numbers {
            var action = sigaction()
            action.sa_flags = SA_RESTART | SA_SIGINFO
            action.__sigaction_handler.sa_sigaction = { number, information, _ in
                // Only what a handler may do (signal-safety(7)).
                let failure = errno
                // Above 0 are the kernel's own reasons, such as a key that was pressed (sigaction(2)).
                let isFromKernel = (information?.pointee.si_code ?? 0) > 0
                var byte = UInt8(truncatingIfNeeded: number) | (isFromKernel ? SignalPipe.kernelBit : 0)
                _ = write(SignalPipe.handlersEnd.load(ordering: .relaxed), &byte, 1)
                errno = failure
            }
            sigaction(number, &action, nil)
        }
    }

    /// Wakes whoever waits.
    func notify() {
        var byte = Self.news
        _ = write(ends.write, &byte, 1)
    }

    /// Waits until something comes, or for a time.
    /// - Parameter timeout: how long at most; nil for as long as it takes.
    func wait(_ timeout: Duration?) -> [Message] {
        var polled = pollfd(fd: ends.read, events: Int16(POLLIN), revents: 0)
        guard poll(&polled, 1, timeout.map(Self.milliseconds) ?? -1) > 0 else { return [] }
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = read(ends.read, &bytes, bytes.count)
        return bytes.prefix(max(0, count)).map { byte in
            byte == Self.news
                ? .news : .signal(CInt(byte & ~Self.kernelBit), isFromKernel: byte & Self.kernelBit != 0)
        }
    }

    /// A time as poll(2) wants it, rounded up so that a wait does not end just before it.
    private static func milliseconds(_ time: Duration) -> CInt {
        let (seconds, attoseconds) = max(.zero, time).components
        return CInt(clamping: seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}
