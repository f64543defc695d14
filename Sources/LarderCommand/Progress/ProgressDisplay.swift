import Glibc

/// Displays the progress of a prefetch: on a terminal as a bar that is redrawn in place, otherwise as a plain line
/// every few seconds.
actor ProgressDisplay {
    /// The output to which the progress is written, and a clock.
    struct Screen: Sendable {
        /// Writes text unchanged.
        let write: @Sendable (String) -> Void
        /// Returns the current number of columns of the terminal; nil if the output is not a terminal.
        let columns: @Sendable () -> Int?
        /// Returns the time of a monotonic clock.
        let now: @Sendable () -> Duration
    }

    private let screen: Screen
    private var tally: PrefetchTally
    private var meter: ProgressMeter
    private var lastPlain: Duration
    /// Whether the cursor is in the line of the bar.
    private var isLineOpen = false
    private var hasEnded = false

    /// The minimum time between two plain lines.
    private static let plainInterval = Duration.seconds(5)

    /// Creates a display. It shows nothing yet.
    init(_ tally: PrefetchTally, on screen: Screen) {
        self.screen = screen
        self.tally = tally
        let now = screen.now()
        meter = ProgressMeter(tally, at: now)
        lastPlain = now
    }

    /// Shows new progress.
    func show(_ tally: PrefetchTally) {
        self.tally = tally
        draw()
    }

    /// Redraws the progress. It is also called at intervals, so that users see when a transfer stalls.
    func draw() {
        // A timer may call this method after ``end()``.
        guard !hasEnded else { return }
        let now = screen.now()
        meter.note(tally, at: now)
        if let columns = screen.columns() {
            screen.redraw(line.bar(columns: columns - 1), columns: columns)
            isLineOpen = true
        } else if now - lastPlain >= Self.plainInterval {
            lastPlain = now
            screen.write("\(line.plain)\n")
        }
    }

    /// Ends the display. The last progress remains visible, and other text can follow on its own line.
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
    /// A screen that writes to standard error, because standard output is for results.
    /// - Parameter isQuiet: whether nothing is displayed if standard error is not a terminal.
    static func standardError(isQuiet: Bool) -> Self {
        let canRedraw = isatty(STDERR_FILENO) == 1 && getenv("TERM").map { String(cString: $0) } != "dumb"
        let clock = ContinuousClock()
        let start = clock.now
        return Self(
            write: { if canRedraw || !isQuiet { Output.progress($0) } },
            columns: { canRedraw ? Output.terminalSize(STDERR_FILENO).columns : nil },
            now: { start.duration(to: clock.now) })
    }

    /// Replaces the line of the cursor on a terminal with this number of columns.
    func redraw(_ line: String, columns: Int) {
        // The last column stays empty, because some terminals start a new line when a character is written there.
        write("\r\(line.prefix(max(0, columns - 1)))\u{1B}[K")
    }
}
