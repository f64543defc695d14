import LarderClientCore
import Synchronization
import Glibc

/// A program that runs under `larder exec --watch` and may be restarted repeatedly.
///
/// One thread does all the work. It waits for signals, changes, the end of the program and the next deadline, asks the
/// ``ExecSupervisor`` for the effects, and carries them out. Because the same thread sends signals and waits for the
/// program, a signal never goes to a process ID that may have been reused.
///
/// On a terminal the program stays in this process's group, like a program started without larder: signals from the
/// keyboard reach both, job control stops and continues both, and the program may read from the terminal. Without a
/// terminal the program leads its own group, so that a signal to this process's group reaches the program only once,
/// when this process forwards the signal.
final class SupervisedProgram: Sendable {
    private let words: [String]
    private let pipe: SignalPipe
    private let newest = Mutex<Change?>(nil)
    private let onApplied: @Sendable (LarderSnapshot) -> Void
    private let isOnTerminal: Bool

    /// The signals that are forwarded to the program.
    static let forwarded = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT]

    /// A snapshot, and the environment variables of the program that result from it.
    struct Change {
        let snapshot: LarderSnapshot
        let variables: EnvironmentVariables
    }

    /// Prepares to run a program, but does not start it.
    /// - Parameter onApplied: called with a snapshot once the program was started or signalled with it, or if the
    ///   snapshot does not change the program's variables. It is called on the thread that ``run(with:_:_:)`` blocks.
    init(_ words: [String], onApplied: @escaping @Sendable (LarderSnapshot) -> Void) throws(Failure) {
        self.words = words
        self.onApplied = onApplied
        pipe = try SignalPipe()
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        isOnTerminal = terminal >= 0
        if terminal >= 0 { close(terminal) }
    }

    /// Passes the newest snapshot and its variables to the thread that runs the program. Can be called from any thread.
    func change(to change: Change) {
        newest.withLock { $0 = change }
        pipe.notify()
    }

    /// Runs the program until it ends and is not restarted, or until it cannot be started. Blocks.
    func run(
        with first: Change, _ reaction: ExecSupervisor.Reaction, _ timing: ExecSupervisor.Timing
    ) -> Result<ProgramEnd, Failure> {
        // Signals that were ignored when this process was started stay ignored, in this process and in the program.
        pipe.catchSignals(Self.forwarded.filter { !SignalDispositions.inherited.ignores($0) } + [SIGCHLD])
        let clock = ContinuousClock()
        let start = clock.now
        do throws(Failure) {
            var child = try self.start(first.variables)
            var supervisor = ExecSupervisor(reaction, timing, startedWith: first.variables, now: .zero)
            var unapplied: LarderSnapshot? = first.snapshot
            while true {
                if supervisor.isUpToDate, let snapshot = unapplied.take() { onApplied(snapshot) }
                let messages = pipe.wait(supervisor.wakeUp.map { $0 - start.duration(to: clock.now) })
                let now = start.duration(to: clock.now)
                var effects: [ExecSupervisor.Effect] = []
                if let change = newest.withLock({ $0.take() }) {
                    supervisor.changed(to: change.variables, now: now)
                    unapplied = change.snapshot
                }
                for case .signal(let number, let isFromKernel) in messages where number != SIGCHLD {
                    effects += supervisor.received(
                        number, wasDelivered: isOnTerminal && isFromKernel, now: now)
                }
                // Check first whether the program has ended. If it has, the effects that would send it signals are
                // discarded.
                if let end = Self.reap(child) {
                    effects = supervisor.ended(end, now: now)
                } else {
                    effects += supervisor.timePassed(now: now)
                }
                for effect in effects {
                    switch effect {
                    case .start(let variables): child = try self.start(variables)
                    case .send(let number): kill(child, number)
                    case .kill: kill(isOnTerminal ? child : -child, SIGKILL)
                    case .end(let end): return .success(end)
                    }
                }
            }
        } catch {
            return .failure(error)
        }
    }

    private func start(_ variables: EnvironmentVariables) throws(Failure) -> pid_t {
        try Program(words: words, variables: variables).start(hasOwnGroup: !isOnTerminal)
    }

    /// Waits for every child that has ended. If this process is process 1 of a container, its children include orphaned
    /// processes that it did not start.
    /// - Returns: how `program` ended; nil if it is still running.
    private static func reap(_ program: pid_t) -> ProgramEnd? {
        var end: ProgramEnd?
        while true {
            var status: CInt = 0
            let child = waitpid(-1, &status, WNOHANG)
            if child == program { end = ProgramEnd(waitStatus: status) }
            if child <= 0 { return end }
        }
    }
}
