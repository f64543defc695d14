import Glibc

/// What `larder exec --watch` does about changes, signals and the end of its program: a state machine without input,
/// output or clock. Each call says what happened and when, and answers what is to be done.
struct ExecSupervisor {
    /// What is done about a change.
    enum Reaction: Equatable {
        /// The program is stopped and started again.
        case restart
        /// The program is sent a signal.
        case signal(CInt)
    }

    /// What is to be done.
    enum Effect: Equatable {
        /// Start the program with these variables.
        case start(EnvironmentVariables)
        /// Send the program a signal.
        case send(CInt)
        /// End the program and what is left of its process group at once.
        case kill
        /// The program has ended, and so does this one.
        case end(ProgramEnd)
    }

    /// How long is waited for what.
    struct Timing: Equatable {
        /// A change waits up to this, by chance, so that many hosts do not act on it at once.
        var splay = Duration.zero
        /// The shortest time between two of start, restart and signal; changes within it are joined.
        var interval = Duration.seconds(1)
        /// How long the program may take to end when it is told to.
        var patience = Duration.seconds(30)
    }

    private enum Phase {
        case running
        /// It was told to end because of a change. `deadline` is nil once it was killed.
        case stopping(deadline: Duration?)
    }

    private enum Ending: Equatable {
        case no
        /// It got SIGINT, which many programs take for something else than the end. Whoever lives on at `end` stays.
        case until(end: Duration)
        /// It got SIGTERM, which means the end, however long that takes.
        case forGood
    }

    let reaction: Reaction
    let timing: Timing
    private let fraction: () -> Double
    private var phase = Phase.running
    /// What the program was started with or told of last.
    private var inForce: EnvironmentVariables
    private var wanted: (variables: EnvironmentVariables, due: Duration)?
    private var lastAction: Duration
    /// What the program was asked by somebody else that may end it; meanwhile nothing is stopped or started.
    private var ending = Ending.no

    /// Makes the supervisor of a program that was just started.
    /// - Parameters:
    ///   - variables: what it was started with.
    ///   - now: a time on any clock that only goes forward.
    ///   - fraction: draws a number from 0 to 1 for the splay.
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

    /// When ``timePassed(now:)`` has something to do; nil for never.
    var wakeUp: Duration? {
        switch phase {
        case .running:
            switch ending {
            case .no: wanted?.due
            case .until(let end): wanted.map { max($0.due, end) }
            case .forGood: nil
            }
        case .stopping(let deadline): deadline
        }
    }

    /// Whether the program runs with, or was told of, the newest variables.
    var isUpToDate: Bool {
        if case .running = phase { wanted == nil } else { false }
    }

    /// The configuration is another one, or the same again.
    mutating func changed(to variables: EnvironmentVariables, now: Duration) {
        guard variables != inForce else {
            // It went back before anything was done about it. A program that is being stopped gets the newest.
            if case .running = phase { wanted = nil } else { wanted?.variables = variables }
            return
        }
        let due = wanted?.due ?? max(now + timing.splay * fraction(), lastAction + timing.interval)
        wanted = (variables, due)
    }

    /// A signal came for this process.
    /// - Parameter hasReached: whether the program got it already, as from the keyboard.
    mutating func received(_ number: CInt, hasReached: Bool, now: Duration) -> [Effect] {
        if number == SIGTERM { ending = .forGood }
        if number == SIGINT, ending != .forGood { ending = .until(end: now + timing.patience) }
        return hasReached ? [] : [.send(number)]
    }

    /// Some time has passed.
    mutating func timePassed(now: Duration) -> [Effect] {
        switch phase {
        case .stopping(let deadline?) where now >= deadline:
            phase = .stopping(deadline: nil)
            return [.kill]
        case .running:
            if case .until(let end) = ending, now >= end { ending = .no }
            guard ending == .no, let wanted, now >= wanted.due else { return [] }
            guard case .signal(let number) = reaction else {
                phase = .stopping(deadline: now + timing.patience)
                return [.send(SIGTERM)]
            }
            act(wanted.variables, now)
            return [.send(number)]
        case .stopping:
            return []
        }
    }

    /// The program has ended and was waited for.
    mutating func ended(_ end: ProgramEnd, now: Duration) -> [Effect] {
        guard case .stopping = phase, ending == .no, let wanted else { return [.end(end)] }
        phase = .running
        act(wanted.variables, now)
        return [.start(inForce)]
    }

    private mutating func act(_ variables: EnvironmentVariables, _ now: Duration) {
        inForce = variables
        wanted = nil
        lastAction = now
    }
}
