import Glibc
import LarderClient
import Synchronization

/// A command of the user's about a file: `{}` in it stands for the file's path, as does `$LARDER_FILE`.
struct ShellCommand {
    /// What /bin/sh is to run.
    let text: String

    /// Runs it to its end. What it prints goes to standard error.
    /// - Throws: ``Failure`` where no shell can be started.
    func run(on file: String) async throws(Failure) -> ProgramEnd {
        var variables = EnvironmentVariables()
        variables.append("LARDER_FILE", file)
        let script = text.split(separator: "{}", omittingEmptySubsequences: false).joined(separator: Self.quoted(file))
        let child = try Program(words: ["/bin/sh", "-c", script], variables: variables).start(
            hasOwnGroup: false, output: STDERR_FILENO)
        return await onOwnThread { Candidate.wait(for: child) }
    }

    /// The path as one word of a shell's.
    private static func quoted(_ path: String) -> String {
        "'\(path.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''"))'"
    }
}

/// The new file that a check judges, as the signals see it that end this process: it goes with the process, and the
/// check is told.
///
/// All of it happens in the signal handler, which can do what is needed (signal-safety(7)): there is nothing to wait
/// for. There is one candidate at a time, because there is one set of handlers.
enum Candidate {
    /// Its path, in memory that is there when a signal comes. Unchecked, because a signal handler may take no lock: it is
    /// written only while `isThere` is false, and read by the handler only while that is true.
    nonisolated(unsafe) private static let path = UnsafeMutablePointer<CChar>.allocate(capacity: Int(PATH_MAX))
    private static let isThere = Atomic<Bool>(false)
    private static let check = Atomic<pid_t>(0)
    private static let isEnding = Atomic<Bool>(false)

    /// Has the signals that end this process remove a file first, until ``forget()``.
    static func isAt(_ file: String) {
        _ = catchesSignals
        // A longer one cannot have been opened.
        guard file.utf8.count < Int(PATH_MAX) else { return }
        strcpy(path, file)
        isThere.store(true, ordering: .sequentiallyConsistent)
    }

    /// The file is in place, or gone.
    static func forget() { isThere.store(false, ordering: .sequentiallyConsistent) }

    /// Waits for a child to end, and passes the signals on to it while there is a candidate.
    static func wait(for child: pid_t) -> ProgramEnd {
        check.store(child, ordering: .sequentiallyConsistent)
        // It stays a zombie until nobody signals it any more: its number could be another's.
        var information = siginfo_t()
        while waitid(P_PID, id_t(child), &information, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        check.store(0, ordering: .sequentiallyConsistent)
        // The check ended by the signal that ends this process, too: that is no verdict.
        while isEnding.load(ordering: .sequentiallyConsistent) { pause() }
        var status: CInt = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        return ProgramEnd(waitStatus: status)
    }

    private static let catchesSignals: Bool = {
        for number in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] where !SignalDispositions.inherited.ignores(number) {
            var action = sigaction()
            action.sa_flags = SA_RESTART | SA_SIGINFO
            action.__sigaction_handler.sa_sigaction = { number, information, _ in
                if Candidate.isThere.load(ordering: .sequentiallyConsistent) {
                    Candidate.isEnding.store(true, ordering: .sequentiallyConsistent)
                    unlink(Candidate.path)
                    let child = Candidate.check.load(ordering: .sequentiallyConsistent)
                    // The keyboard's signals reach it without this process (above 0: from the kernel, sigaction(2)).
                    if child > 0, (information?.pointee.si_code ?? 0) <= 0 { kill(child, number) }
                }
                // Blocked until the handler returns; then this process ends by it, as whoever sent it expects.
                signal(number, SIG_DFL)
                raise(number)
            }
            sigaction(number, &action, nil)
        }
        return true
    }()
}
