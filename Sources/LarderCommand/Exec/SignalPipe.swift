import ArgumentParser
import CLinuxShims
import Glibc
import LarderEncoding
import Synchronization

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

/// A signal on the command line: `HUP`, `SIGHUP` or `1`.
struct SignalName: ExpressibleByArgument, Equatable {
    let number: CInt

    private static let names: [(String, CInt)] = [
        ("HUP", SIGHUP), ("INT", SIGINT), ("QUIT", SIGQUIT), ("USR1", SIGUSR1), ("USR2", SIGUSR2), ("ALRM", SIGALRM),
        ("TERM", SIGTERM), ("CONT", SIGCONT), ("WINCH", SIGWINCH), ("KILL", SIGKILL),
    ]

    /// The names for shell completion.
    static var completions: [String] { names.map { $0.0 } }

    init?(argument: String) {
        let name = argument.uppercased()
        let bare = name.hasPrefix("SIG") ? String(name.dropFirst(3)) : name
        if let known = Self.names.first(where: { $0.0 == bare }) {
            number = known.1
        } else if let number = CInt(argument), (1...64).contains(number) {
            self.number = number
        } else {
            return nil
        }
    }
}

/// The blocked and ignored signals of a process. They survive execve(2), so a program inherits them from its parent.
///
/// The libraries of this program change them: one ignores SIGPIPE, and the threads of the task pool block most signals.
/// A started program gets the dispositions with which this process was started.
struct SignalDispositions: @unchecked Sendable {
    // `@unchecked Sendable`, because the compiler does not know that the C structure `sigset_t` is plain memory. It
    // never changes.
    private let mask: sigset_t
    private let ignored: [CInt]

    /// The dispositions with which this process was started. ``CommandEntry`` must access this before any other code
    /// changes the dispositions.
    static let inherited = SignalDispositions()

    /// The highest signal number of Linux (signal(7)).
    private static let last: CInt = 64

    private init() {
        var mask = sigset_t()
        pthread_sigmask(SIG_SETMASK, nil, &mask)
        self.mask = mask
        ignored = (1...Self.last).filter { number in
            var action = sigaction()
            guard sigaction(number, nil, &action) == 0 else { return false }
            return unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
                == unsafeBitCast(SIG_IGN, to: Int.self)
        }
    }

    /// Whether a signal was ignored when this process was started, for example SIGHUP under nohup(1).
    func ignores(_ number: CInt) -> Bool { ignored.contains(number) }

    /// Restores the dispositions for this thread and process, immediately before execve(2).
    func restore() {
        for number in 1...Self.last where !ignores(number) { signal(number, SIG_DFL) }
        var mask = mask
        pthread_sigmask(SIG_SETMASK, &mask, nil)
    }

    /// Calls `body` with the blocked signals, and with the signals that are not ignored.
    func withSets<Result>(
        _ body: (_ blocked: UnsafePointer<sigset_t>, _ defaults: UnsafePointer<sigset_t>) -> Result
    ) -> Result {
        var (blocked, defaults) = (mask, sigset_t())
        sigemptyset(&defaults)
        for number in 1...Self.last where !ignores(number) { sigaddset(&defaults, number) }
        return body(&blocked, &defaults)
    }

    /// Ends this process by a signal. After Ctrl-C, a shell aborts its script only if the program for which the shell
    /// waits was killed by the signal.
    static func endProcess(by number: CInt) -> Never {
        signal(number, SIG_DFL)
        // The threads that run tasks block signals, so the signal is unblocked first.
        var signals = sigset_t()
        sigemptyset(&signals)
        sigaddset(&signals, number)
        pthread_sigmask(SIG_UNBLOCK, &signals, nil)
        raise(number)
        exit(128 + number)
    }
}
