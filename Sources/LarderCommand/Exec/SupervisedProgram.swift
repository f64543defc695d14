import LarderClient
import Synchronization
import Glibc

/// A program that runs under `larder exec --watch`, from its start to its end.
///
/// One thread does all of it: it waits for signals, changes, the program's end and the next point in time, asks the
/// ``ExecSupervisor`` what is to be done, and does it. Nothing is sent to a process id that was waited for already,
/// because both happen here.
///
/// On a terminal the program stays in this process's group, like a program that was started without larder: the keyboard's
/// signals reach both, job control stops and continues both, and it may read from the terminal. Where there is no
/// terminal it leads a group of its own, so that a signal for this process's group comes to it once, through here.
final class SupervisedProgram: Sendable {
    private let words: [String]
    private let pipe: SignalPipe
    private let newest = Mutex<Change?>(nil)
    private let onTaken: @Sendable (ConfigSnapshot) -> Void
    private let isOnTerminal: Bool

    /// The signals that are passed on.
    static let forwarded = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT]

    /// A snapshot, and what it means for the program.
    struct Change {
        let snapshot: ConfigSnapshot
        let variables: EnvironmentVariables
    }

    /// Takes note of what to run; nothing is started yet.
    /// - Parameter onTaken: told of a snapshot as soon as the program was started with it or sent its signal, or has the
    ///   same variables already. Called on the thread that ``run(with:_:_:)`` blocks.
    init(_ words: [String], onTaken: @escaping @Sendable (ConfigSnapshot) -> Void) throws(Failure) {
        self.words = words
        self.onTaken = onTaken
        pipe = try SignalPipe()
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)
        isOnTerminal = terminal >= 0
        if terminal >= 0 { close(terminal) }
    }

    /// Hands over the newest snapshot, from any thread.
    func change(to change: Change) {
        newest.withLock { $0 = change }
        pipe.notify()
    }

    /// Runs the program until it has ended for good, or cannot be started. Blocks.
    func run(
        with first: Change, _ reaction: ExecSupervisor.Reaction, _ timing: ExecSupervisor.Timing
    ) -> Result<ProgramEnd, Failure> {
        // What was ignored from the start stays so, here as in the program.
        pipe.catchSignals(Self.forwarded.filter { !SignalDispositions.inherited.ignores($0) } + [SIGCHLD])
        let clock = ContinuousClock()
        let start = clock.now
        do throws(Failure) {
            var child = try self.start(first.variables)
            var supervisor = ExecSupervisor(reaction, timing, startedWith: first.variables, now: .zero)
            var notTaken: ConfigSnapshot? = first.snapshot
            while true {
                if supervisor.isUpToDate, let snapshot = notTaken.take() { onTaken(snapshot) }
                let messages = pipe.wait(supervisor.wakeUp.map { $0 - start.duration(to: clock.now) })
                let now = start.duration(to: clock.now)
                var effects: [ExecSupervisor.Effect] = []
                if let change = newest.withLock({ $0.take() }) {
                    supervisor.changed(to: change.variables, now: now)
                    notTaken = change.snapshot
                }
                for case .signal(let number, let isFromKernel) in messages where number != SIGCHLD {
                    effects += supervisor.received(
                        number, hasReached: isOnTerminal && isFromKernel, now: now)
                }
                // One that has ended gets no more signals.
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

    /// Waits for every child that has ended: as process 1 of a container this one is given others' too.
    /// - Returns: how the program ended, if it has.
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
