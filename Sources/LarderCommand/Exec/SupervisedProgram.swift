import CLinuxShims
import LarderClientCore
import Synchronization
import Glibc

/// A program that runs under `larder exec --watch` and may be restarted repeatedly.
///
/// One thread does all the work. It waits for signals, changes, the end of the program and the next deadline, asks the
/// ``ExecSupervisor`` for the effects, and carries them out. Because the same thread sends signals and waits for the
/// program, a signal never goes to a process ID that may have been reused.
///
/// The program leads its own process group, so that what is left of a run can be ended before the next one. A signal to
/// this process's group reaches the program only once, when this process forwards the signal. On a terminal, the group
/// of the program has the foreground (``ProgramTerminal``).
final class SupervisedProgram: Sendable {
    private let words: [String]
    private let pipe: SignalPipe
    private let newest = Mutex<Change?>(nil)
    private let report: @Sendable (LarderSnapshot, Failure?) -> Void

    /// The signals that are forwarded to the program.
    static let forwarded = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT]

    /// The interval at which the process group of an ended program is checked for other processes. Its last process
    /// may have a parent that this process does not know.
    private static let groupInterval = Duration.milliseconds(50)

    /// A snapshot, and the environment variables of the program that result from it.
    struct Change {
        let snapshot: LarderSnapshot
        let variables: EnvironmentVariables
    }

    /// Prepares to run a program, but does not start it.
    /// - Parameter report: called with a snapshot once the program was started or signaled with it, or if the snapshot
    ///   does not change the program's variables; with a failure if the program cannot be started with it. It is called
    ///   on the thread that ``run(with:_:_:)`` blocks.
    init(_ words: [String], report: @escaping @Sendable (LarderSnapshot, Failure?) -> Void) throws(Failure) {
        self.words = words
        self.report = report
        pipe = try SignalPipe()
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
        _ = larder_adopt_orphans()
        var run = Run(words: words, terminal: ProgramTerminal())
        let clock = ContinuousClock()
        let start = clock.now
        do throws(Failure) {
            try run.start(first.variables)
            var supervisor = ExecSupervisor(
                reaction, timing, startedWith: first.variables, now: .zero,
                obstacle: { [words] in Program(words: words, variables: $0).obstacle() })
            var unapplied: LarderSnapshot? = first.snapshot
            while true {
                if supervisor.isUpToDate, let snapshot = unapplied.take() { report(snapshot, nil) }
                let messages = pipe.wait(timeout(supervisor, start.duration(to: clock.now)))
                let now = start.duration(to: clock.now)
                var effects: [ExecSupervisor.Effect] = []
                if let change = newest.withLock({ $0.take() }) {
                    supervisor.changed(to: change.variables, now: now)
                    unapplied = change.snapshot
                }
                for case .signal(let number) in messages where number != SIGCHLD {
                    effects += supervisor.received(number, now: now)
                }
                // Check first whether the program has ended. If it has, the effects that would send it signals are
                // discarded.
                if let end = run.reap() {
                    effects = supervisor.ended(end, now: now)
                } else {
                    effects += supervisor.timePassed(now: now)
                }
                while true {
                    for effect in effects {
                        switch effect {
                        case .start(let variables):
                            do throws(Failure) {
                                try run.start(variables)
                            } catch {
                                reject(unapplied.take(), error)
                                try run.start(supervisor.couldNotStart())
                            }
                        case .send(let number): run.send(number)
                        case .sendGroup(let number): run.sendGroup(number)
                        case .reject(let failure): reject(unapplied, failure)
                        case .reportKill:
                            Output.note(
                                "the program did not end within \(TimeSpan(timing.stopTimeout)) after SIGTERM and is "
                                    + "killed; increase --kill-after if it needs more time")
                        case .end(let end): return .success(end)
                        }
                    }
                    guard supervisor.awaitsEmptyGroup, run.isGroupEmpty else { break }
                    effects = supervisor.groupEmptied(now: now)
                }
            }
        } catch {
            return .failure(error)
        }
    }

    /// Reports that the program keeps its variables, because it cannot be started with those of a snapshot.
    private func reject(_ snapshot: LarderSnapshot?, _ failure: Failure) {
        Output.note("\(failure.message); the program keeps its current variables")
        if let snapshot { report(snapshot, failure) }
    }

    /// The time to wait for messages; nil for no limit.
    private func timeout(_ supervisor: ExecSupervisor, _ now: Duration) -> Duration? {
        let next = supervisor.wakeUp.map { $0 - now }
        return supervisor.awaitsEmptyGroup ? min(next ?? Self.groupInterval, Self.groupInterval) : next
    }
}

/// One run of a supervised program: the process, its group, and the terminal.
private struct Run {
    let words: [String]
    let terminal: ProgramTerminal
    /// The process ID of the program, which is also the number of its group.
    var program: pid_t = 0
    /// Whether the status of the program has not been collected yet.
    var isRunning = false

    mutating func start(_ variables: EnvironmentVariables) throws(Failure) {
        let foreground = terminal.foreground
        do throws(Failure) {
            program = try Program(words: words, variables: variables).start(in: .own(terminal: foreground))
            isRunning = true
        } catch {
            if foreground != nil { terminal.takeForeground() }
            throw error
        }
    }

    func send(_ number: CInt) {
        guard isRunning else { return }
        if number == SIGCONT {
            terminal.resume(program)
        } else {
            kill(program, number)
        }
    }

    func sendGroup(_ number: CInt) { kill(-program, number) }

    var isGroupEmpty: Bool { kill(-program, 0) != 0 && errno == ESRCH }

    /// Waits for every child that has ended. The children include orphaned processes that this process did not start.
    /// Reacts if a key has stopped the program.
    /// - Returns: how the program ended; nil if it is still running.
    mutating func reap() -> ProgramEnd? {
        var end: ProgramEnd?
        while true {
            var status: CInt = 0
            let child = waitpid(-1, &status, WNOHANG | WUNTRACED)
            if child <= 0 { return end }
            guard child == program, isRunning else { continue }
            if status & 0xFF == 0x7F {
                terminal.stopped(program, by: (status >> 8) & 0xFF)
            } else {
                end = ProgramEnd(waitStatus: status)
                isRunning = false
                terminal.takeForeground(from: program)
            }
        }
    }
}
