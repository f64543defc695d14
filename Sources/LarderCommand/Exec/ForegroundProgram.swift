import Glibc
import Synchronization

/// A program that runs in the process group of this process, which waits for it as a shell does.
enum ForegroundProgram {
    // Signal handlers are global, so only one program can run at a time.
    private static let child = Atomic<pid_t>(0)
    private static let early = Atomic<CInt>(0)

    /// Runs the program until it ends. Signals that would end this process are forwarded to the program, except those
    /// from the keyboard, which the program gets itself.
    /// - Throws: ``Failure`` if the program cannot be run.
    static func run(_ program: Program) throws(Failure) -> ProgramEnd {
        catchSignals()
        let pid = try program.start(in: .shared)
        child.store(pid, ordering: .sequentiallyConsistent)
        let number = early.exchange(0, ordering: .sequentiallyConsistent)
        if number != 0 { kill(pid, number) }
        // With WNOWAIT the child stays a zombie until the signal handler can no longer send signals to it. Otherwise
        // another process could get its process ID and the signal.
        var information = siginfo_t()
        while waitid(P_PID, id_t(pid), &information, WEXITED | WNOWAIT) < 0, errno == EINTR {}
        child.store(0, ordering: .sequentiallyConsistent)
        var status: CInt = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        return ProgramEnd(waitStatus: status)
    }

    private static func catchSignals() {
        for number in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] where !SignalDispositions.inherited.ignores(number) {
            var action = sigaction()
            action.sa_flags = SA_RESTART | SA_SIGINFO
            action.__sigaction_handler.sa_sigaction = { number, information, _ in
                // The kernel sends the signals of the keyboard with a code above 0 (sigaction(2)).
                if let information, information.pointee.si_code > 0 { return }
                // The program may have started without being known here yet.
                ForegroundProgram.early.store(number, ordering: .sequentiallyConsistent)
                let child = ForegroundProgram.child.load(ordering: .sequentiallyConsistent)
                if child > 0 {
                    ForegroundProgram.early.store(0, ordering: .sequentiallyConsistent)
                    kill(child, number)
                }
            }
            sigaction(number, &action, nil)
        }
    }
}
