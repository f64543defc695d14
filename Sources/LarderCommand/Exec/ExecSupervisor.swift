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
        /// Start the program with these variables.
        case start(EnvironmentVariables)
        /// Send the program a signal.
        case send(CInt)
        /// Kill the program and the rest of its process group.
        case kill
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
        /// The time that the program has to end after it got SIGTERM because of a change, before it is killed. Also the
        /// time for which changes wait after the program got SIGINT.
        var stopTimeout = Duration.seconds(30)
    }

    private enum Phase {
        case running
        /// The program got SIGTERM because of a change. It is killed at `deadline`, which is nil once the program has
        /// been killed.
        case stopping(deadline: Duration?)
    }

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
    private let fraction: () -> Double
    private var phase = Phase.running
    /// The variables with which the program was last started or signalled.
    private var inForce: EnvironmentVariables
    private var pending: (variables: EnvironmentVariables, due: Duration)?
    private var lastAction: Duration
    /// Whether and how long changes are recorded but not handled. They wait after this process has received SIGINT or
    /// SIGTERM, which the program gets as well and may end by.
    private var ending = Ending.no

    /// Creates the supervisor of a program that has just been started.
    /// - Parameters:
    ///   - variables: the environment variables with which the program was started.
    ///   - now: the time on any monotonic clock.
    ///   - fraction: returns a random number from 0 to 1 for the splay.
    init(
        _ reaction: Reaction, _ timing: Timing, startedWith variables: EnvironmentVariables, now: Duration,
        fraction: @escaping () -> Double = { .random(in: 0...1) }
    ) {
        self.reaction = reaction
        self.timing = timing
        self.fraction = fraction
        inForce = variables
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
        }
    }

    /// Whether the running program was started or signalled with the newest variables.
    var isUpToDate: Bool {
        if case .running = phase { pending == nil } else { false }
    }

    /// Reports that the configuration has changed, possibly back to the variables in force.
    mutating func changed(to variables: EnvironmentVariables, now: Duration) {
        guard variables != inForce else {
            // The change was reverted before the program was stopped or signalled, so there is no reaction. A program
            // that is already being stopped is restarted with the newest variables.
            if case .running = phase { pending = nil } else { pending?.variables = variables }
            return
        }
        let due = pending?.due ?? max(now + timing.splay * fraction(), lastAction + timing.interval)
        pending = (variables, due)
    }

    /// Reports that this process received a signal.
    /// - Parameter wasDelivered: whether the program received it as well, for example from the keyboard.
    mutating func received(_ number: CInt, wasDelivered: Bool, now: Duration) -> [Effect] {
        if number == SIGTERM { ending = .indefinitely }
        if number == SIGINT, ending != .indefinitely { ending = .until(end: now + timing.stopTimeout) }
        return wasDelivered ? [] : [.send(number)]
    }

    /// Reports the current time. Returns no effects before ``wakeUp``.
    mutating func timePassed(now: Duration) -> [Effect] {
        switch phase {
        case .stopping(let deadline?) where now >= deadline:
            phase = .stopping(deadline: nil)
            return [.kill]
        case .running:
            if case .until(let end) = ending, now >= end { ending = .no }
            guard ending == .no, let pending, now >= pending.due else { return [] }
            guard case .signal(let number) = reaction else {
                phase = .stopping(deadline: now + timing.stopTimeout)
                return [.send(SIGTERM)]
            }
            act(pending.variables, now)
            return [.send(number)]
        case .stopping:
            return []
        }
    }

    /// Reports that the program has ended and its status was collected (waitpid(2)).
    mutating func ended(_ end: ProgramEnd, now: Duration) -> [Effect] {
        guard case .stopping = phase, ending == .no, let pending else { return [.end(end)] }
        phase = .running
        act(pending.variables, now)
        return [.start(inForce)]
    }

    private mutating func act(_ variables: EnvironmentVariables, _ now: Duration) {
        inForce = variables
        pending = nil
        lastAction = now
    }
}
