import Glibc
import Synchronization

/// The controlling terminal of this process, for a program in a process group of its own.
///
/// If this process has the foreground, the group of the program gets it, so that the program may read from the terminal
/// and receives the signals of its keys. If a key stops the program, this process stops its own group, too, so that the
/// shell shows the job as stopped.
struct ProgramTerminal {
    /// The descriptor of the terminal; -1 if there is none.
    private let descriptor: CInt

    init() {
        descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        guard descriptor >= 0 else { return }
        // Without the foreground, tcsetpgrp(3) and notes on the terminal would stop this process.
        signal(SIGTTOU, SIG_IGN)
        var stop = sigset_t()
        sigemptyset(&stop)
        sigaddset(&stop, SIGTSTP)
        pthread_sigmask(SIG_UNBLOCK, &stop, nil)
    }

    /// Whether this process has a controlling terminal.
    static var exists: Bool {
        let descriptor = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        if descriptor >= 0 { close(descriptor) }
        return descriptor >= 0
    }

    /// The descriptor of the terminal if this process has its foreground; otherwise nil.
    var foreground: CInt? { descriptor >= 0 && tcgetpgrp(descriptor) == getpgrp() ? descriptor : nil }

    /// Gives the foreground to this process's group.
    func takeForeground() { if descriptor >= 0 { tcsetpgrp(descriptor, getpgrp()) } }

    /// Takes the foreground back if the group of the program has it.
    func takeForeground(from program: pid_t) {
        if descriptor >= 0, tcgetpgrp(descriptor) == program { takeForeground() }
    }

    /// Continues the program. On a terminal, continues its whole group, in the foreground if this process has it.
    func resume(_ program: pid_t) {
        if let foreground { tcsetpgrp(foreground, program) }
        kill(descriptor >= 0 ? -program : program, SIGCONT)
    }

    /// Reacts to a signal of the terminal that has stopped the program.
    func stopped(_ program: pid_t, by number: CInt) {
        guard descriptor >= 0, [SIGTSTP, SIGTTIN, SIGTTOU].contains(number) else { return }
        // The shell has given this process the foreground since the program was started in the background.
        if number != SIGTSTP, foreground != nil { return resume(program) }
        takeForeground(from: program)
        // This process ignores the signal for its group, because otherwise a shell could continue it between the two
        // signals, and the second one would stop it again. A thread may block the signal, so it could become pending;
        // ignoring it once more discards it.
        signal(SIGTSTP, SIG_IGN)
        kill(0, SIGTSTP)
        signal(SIGTSTP, SIG_IGN)
        signal(SIGTSTP, SIG_DFL)
        // A signal to this thread stops the process before the call returns. The kernel discards both signals if there
        // is no shell that could continue the process.
        pthread_kill(pthread_self(), SIGTSTP)
        resume(program)
    }
}

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
