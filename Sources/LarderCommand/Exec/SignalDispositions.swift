import Glibc

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
}
