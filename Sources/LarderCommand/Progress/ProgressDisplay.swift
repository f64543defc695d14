import Glibc

/// Shows how far a prefetch has come: a bar that is drawn again in its place on a terminal, a plain line now and then
/// elsewhere.
actor ProgressDisplay {
    /// Where it is shown.
    struct Screen: Sendable {
        /// Writes text as it is.
        let write: @Sendable (String) -> Void
        /// The columns of the terminal, which may change at any time; nil where it is none.
        let columns: @Sendable () -> Int?
        /// The time of a monotonic clock.
        let now: @Sendable () -> Duration
    }

    private let screen: Screen
    private var tally: PrefetchTally
    private var meter: ProgressMeter
    private var lastPlain: Duration
    /// Whether the cursor stands in a line that is still to be drawn again.
    private var isLineOpen = false
    private var hasEnded = false

    /// The least time between two plain lines.
    private static let plainInterval = Duration.seconds(5)

    /// Makes a display. It shows nothing yet.
    init(_ tally: PrefetchTally, on screen: Screen) {
        self.screen = screen
        self.tally = tally
        let now = screen.now()
        meter = ProgressMeter(tally, at: now)
        lastPlain = now
    }

    /// Shows a new state.
    func show(_ tally: PrefetchTally) {
        self.tally = tally
        draw()
    }

    /// Shows the state again, at another pace: that nothing happens is to be seen, too.
    func draw() {
        // A last tick may come late.
        guard !hasEnded else { return }
        let now = screen.now()
        meter.note(tally, at: now)
        if let columns = screen.columns() {
            // The last column stays empty: a character there would make some terminals begin a new line.
            screen.write("\r\(line.bar(columns: columns - 1))\u{1B}[K")
            isLineOpen = true
        } else if now - lastPlain >= Self.plainInterval {
            lastPlain = now
            screen.write("\(line.plain)\n")
        }
    }

    /// Leaves the last state where it is, so that other text can follow in a line of its own. Nothing is shown after it.
    func end() {
        hasEnded = true
        guard isLineOpen else { return }
        isLineOpen = false
        screen.write("\n")
    }

    private var line: ProgressLine {
        ProgressLine(tally: tally, bytesPerSecond: meter.bytesPerSecond, millisecondsLeft: meter.millisecondsLeft)
    }
}

extension ProgressDisplay.Screen {
    /// Standard error: what a program makes of standard output is the result, not the way there.
    /// - Parameter isQuiet: shows nothing where it is no terminal.
    static func standardError(isQuiet: Bool) -> Self {
        let canRedraw = isatty(STDERR_FILENO) == 1 && getenv("TERM").map { String(cString: $0) } != "dumb"
        let clock = ContinuousClock()
        let start = clock.now
        return Self(
            write: { if canRedraw || !isQuiet { Output.progress($0) } },
            columns: { canRedraw ? terminalColumns : nil },
            now: { start.duration(to: clock.now) })
    }

    /// The width of the terminal; 80 where it does not say.
    private static var terminalColumns: Int {
        var size = winsize()
        guard ioctl(STDERR_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }
}
