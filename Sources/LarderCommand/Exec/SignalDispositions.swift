import Glibc

/// Which signals a process blocks and ignores: what survives execve(2), and so is what a program's parent decided.
///
/// The libraries of this program change it: one ignores SIGPIPE, and the threads that run tasks block most signals. What
/// is started from here gets what this program was started with, taken down before any of that.
struct SignalDispositions: @unchecked Sendable {
    // Sendable: plain memory that nobody changes; only the C structure does not say so.
    private let mask: sigset_t
    private let ignored: [CInt]

    /// What this process was started with, if ``Entry`` asked first.
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

    /// Whether a signal is ignored, as SIGHUP is by whatever nohup(1) starts.
    func ignores(_ number: CInt) -> Bool { ignored.contains(number) }

    /// Makes them this thread's and this process's again, for the moment before execve(2).
    func restore() {
        for number in 1...Self.last where !ignores(number) { signal(number, SIG_DFL) }
        var mask = mask
        pthread_sigmask(SIG_SETMASK, &mask, nil)
    }

    /// Asks posix_spawn(3) to give them to a child.
    func apply(to attributes: inout posix_spawnattr_t) {
        var mask = mask
        posix_spawnattr_setsigmask(&attributes, &mask)
        var defaults = sigset_t()
        sigemptyset(&defaults)
        for number in 1...Self.last where !ignores(number) { sigaddset(&defaults, number) }
        posix_spawnattr_setsigdefault(&attributes, &defaults)
    }
}
