import Glibc

/// Decides how `larder exec --watch` reacts to changes, signals and the end of its program. It is a state machine
/// without I/O or a clock: the caller reports each event with its time and carries out the returned effects.
struct ExecSupervisor {
    /// The reaction to a change of the variables.
    enum Reaction: Equatable {
        /// Stop the program and start it again.
        case restart
        /// Send the program a signal.
        case signal(CInt)
    }

    /// An action that the caller must carry out.
    enum Effect: Equatable {
        /// Start the program with these variables, and call ``couldNotStart()`` if that fails.
        case start(EnvironmentVariables)
        /// Send the program a signal.
        case send(CInt)
        /// Send the processes of the program's group SIGTERM or SIGKILL.
        case sendGroup(CInt)
        /// Report why the change of the variables is not applied yet.
        case reject(Failure)
        /// Report that the program is killed, because it has not ended within ``Timing/stopTimeout``.
        case reportKill
        /// End this process in the way that the program ended.
        case end(ProgramEnd)
    }

    /// Delays and timeouts.
    struct Timing: Equatable {
        /// The maximum of the random delay between a change and the reaction, which keeps many hosts from reacting at
        /// the same time.
        var splay = Duration.zero
        /// The minimum time between two reactions, and between the start of the program and the first reaction. Changes
        /// during this time are combined.
        var interval = Duration.seconds(1)
        /// The time that the program has to end after it got SIGTERM because of a change, before it is killed. The rest
        /// of its process group then has the same time. Also the time for which changes wait after the program got
        /// SIGINT.
        var stopTimeout = Duration.seconds(30)
    }

    private enum Phase {
        case running
        /// The program got SIGTERM because of a change. It is killed at `deadline`, which is nil once the program has
        /// been killed.
        case stopping(deadline: Duration?)
        /// The program has ended, and the rest of its process group got SIGTERM. It is killed at `deadline`. If it was
        /// killed, `deadline` is the time at which this process no longer waits for it.
        case emptying(ProgramEnd, restarts: Bool, deadline: Duration, isKilled: Bool)
    }

    /// How long this process waits for processes that it has killed. They end at once, unless the kernel is busy for
    /// them or their parent does not collect their status.
    private static let killTimeout = Duration.seconds(1)

    private enum Ending: Equatable {
        case no
        /// The program got SIGINT, which many programs do not treat as a request to end. If the program is still
        /// running at `end`, changes are handled again.
        case until(end: Duration)
        /// The program got SIGTERM, so it is expected to end, however long that takes.
        case indefinitely
    }

    let reaction: Reaction
    let timing: Timing
    private let obstacle: (EnvironmentVariables) -> Failure?
    private let fraction: () -> Double
    private var phase = Phase.running
    /// The variables with which the program was last started or signaled.
    private var inForce: EnvironmentVariables
    /// The variables with which the program ran before it was last started again.
    private var previous: EnvironmentVariables
    private var pending: (variables: EnvironmentVariables, due: Duration)?
    /// The last obstacle to the pending change, and the number of attempts that it has prevented.
    private var rejection: (failure: Failure, count: Int)?
    private var lastAction: Duration
    /// Whether and how long changes are recorded but not handled. They wait after this process has received SIGINT or
    /// SIGTERM, which the program gets as well and may end by.
    private var ending = Ending.no

    /// Creates the supervisor of a program that has just been started.
    /// - Parameters:
    ///   - variables: the environment variables with which the program was started.
    ///   - now: the time on any monotonic clock.
    ///   - obstacle: returns why the program cannot be started with variables; nil if it probably can.
    ///   - fraction: returns a random number from 0 to 1 for the splay.
    init(
        _ reaction: Reaction, _ timing: Timing, startedWith variables: EnvironmentVariables, now: Duration,
        obstacle: @escaping (EnvironmentVariables) -> Failure? = { _ in nil },
        fraction: @escaping () -> Double = { .random(in: 0...1) }
    ) {
        self.reaction = reaction
        self.timing = timing
        self.obstacle = obstacle
        self.fraction = fraction
        inForce = variables
        previous = variables
        lastAction = now
    }

    /// The time at which ``timePassed(now:)`` must be called; nil if it need not be called.
    var wakeUp: Duration? {
        switch phase {
        case .running:
            switch ending {
            case .no: pending?.due
            case .until(let end): pending.map { max($0.due, end) }
            case .indefinitely: nil
            }
        case .stopping(let deadline): deadline
        case .emptying(_, _, let deadline, _): deadline
        }
    }

    /// Whether ``groupEmptied(now:)`` must be called once the program's process group has no more processes.
    var awaitsEmptyGroup: Bool {
        if case .emptying = phase { true } else { false }
    }

    /// Whether the running program was started or signaled with the newest variables.
    var isUpToDate: Bool {
        if case .running = phase { pending == nil } else { false }
    }

    /// Reports that the configuration has changed, possibly back to the variables in force.
    mutating func changed(to variables: EnvironmentVariables, now: Duration) {
        guard variables != inForce else {
            // The change was reverted before the program was stopped or signaled, so there is no reaction. A program
            // that is already being stopped is restarted with the newest variables.
            if case .running = phase { pending = nil } else { pending?.variables = variables }
            rejection = nil
            return
        }
        // A change that could not be applied waits for a retry, which must not delay a new one.
        let isRetry = rejection != nil && pending?.variables == variables
        if !isRetry, rejection.take() != nil { pending = nil }
        let due = pending?.due ?? max(now + timing.splay * fraction(), lastAction + timing.interval)
        pending = (variables, due)
    }

    /// Reports that this process received a signal, which the program gets, too.
    mutating func received(_ number: CInt, now: Duration) -> [Effect] {
        if number == SIGTERM { ending = .indefinitely }
        if number == SIGINT, ending != .indefinitely { ending = .until(end: now + timing.stopTimeout) }
        guard case .emptying(let end, _, let deadline, let isKilled) = phase else { return [.send(number)] }
        if ending != .no { phase = .emptying(end, restarts: false, deadline: deadline, isKilled: isKilled) }
        return []
    }

    /// Reports the current time. Returns no effects before ``wakeUp``.
    mutating func timePassed(now: Duration) -> [Effect] {
        switch phase {
        case .stopping(let deadline?) where now >= deadline:
            phase = .stopping(deadline: nil)
            return [.reportKill, .sendGroup(SIGKILL)]
        case .emptying(let end, let restarts, let deadline, let isKilled) where now >= deadline:
            if isKilled { return groupEmptied(now: now) }
            phase = .emptying(end, restarts: restarts, deadline: now + Self.killTimeout, isKilled: true)
            return [.sendGroup(SIGKILL)]
        case .running:
            if case .until(let end) = ending, now >= end { ending = .no }
            guard ending == .no, let pending, now >= pending.due else { return [] }
            guard case .signal(let number) = reaction else {
                // The running program is better than one that cannot be started.
                if let failure = obstacle(pending.variables) {
                    let previous = rejection
                    rejection = (failure, (previous?.count ?? 0) + 1)
                    self.pending?.due = now + Self.retryDelay(after: previous?.count ?? 0)
                    return previous?.failure == failure ? [] : [.reject(failure)]
                }
                rejection = nil
                phase = .stopping(deadline: now + timing.stopTimeout)
                return [.send(SIGTERM)]
            }
            act(pending.variables, now)
            return [.send(number)]
        case .stopping, .emptying:
            return []
        }
    }

    /// Reports that the program has ended and its status was collected (waitpid(2)). Until now, the other processes of
    /// its group, such as the workers of a server that finishes its requests, were not disturbed.
    mutating func ended(_ end: ProgramEnd, now: Duration) -> [Effect] {
        var restarts = ending == .no && pending != nil
        // On a terminal, Ctrl-C reaches only the program.
        if case .stopping = phase, end != .killed(SIGINT) {} else { restarts = false }
        phase = .emptying(end, restarts: restarts, deadline: now + timing.stopTimeout, isKilled: false)
        return [.sendGroup(SIGTERM)]
    }

    /// Reports that the process group of the program, which has ended, has no more processes.
    mutating func groupEmptied(now: Duration) -> [Effect] {
        guard case .emptying(let end, let restarts, _, _) = phase else { return [] }
        guard restarts, let pending else { return [.end(end)] }
        phase = .running
        previous = inForce
        act(pending.variables, now)
        return [.start(inForce)]
    }

    /// Reports that the program could not be started again.
    /// - Returns: the previous variables, with which to start it instead.
    mutating func couldNotStart() -> EnvironmentVariables {
        inForce = previous
        return previous
    }

    /// The delay before the next attempt to apply a change: 1 s, doubled after each attempt, and at most 64 s.
    private static func retryDelay(after attempts: Int) -> Duration { .seconds(1 << min(attempts, 6)) }

    private mutating func act(_ variables: EnvironmentVariables, _ now: Duration) {
        inForce = variables
        pending = nil
        lastAction = now
    }
}
