import Glibc

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
