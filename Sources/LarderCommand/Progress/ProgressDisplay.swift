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
        let canRedraw = isatty(STDERR_FILENO) == 1 && environmentVariable("TERM") != "dumb"
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

/// The progress of a prefetch as one line of text.
struct ProgressLine {
    let tally: PrefetchTally
    /// The current rate in bytes per second.
    let bytesPerSecond: Int
    /// The estimated remaining time; nil if it cannot be estimated.
    let millisecondsLeft: Int?

    /// The minimum length of the bar. If there is less space, numbers are omitted.
    private static let minBarWidth = 10
    /// The maximum length of the bar.
    private static let maxBarWidth = 50

    /// The line for a file or a pipe: `412 of 1000 images, 41 %, 38 MB, 1.2 MB/s, 1 min 12 s left, 2 failed`.
    var plain: String {
        var parts = [
            "\(tally.settled) of \(Human.count(tally.total, "image", "images"))", "\(tally.percent) %", bytes, rate,
        ]
        if let left { parts.append("\(left) left") }
        if let failed { parts.append(failed) }
        return parts.joined(separator: ", ")
    }

    /// The line for a terminal: numbers, and a bar that takes the remaining width. If there is too little space, the
    /// least important numbers are omitted. The line is never wider than `columns`.
    ///
    /// Numbers that change have a fixed width, so that the bar keeps its length.
    func bar(columns: Int) -> String {
        let count = "\(String(tally.settled).rightAligned(to: String(tally.total).count))/\(tally.total)"
        let percent = "\(tally.percent)%".rightAligned(to: 4)
        // The numbers in display order. If there is too little space, the number with the largest `rank` is omitted
        // first.
        let figures: [(rank: Int, text: String?)] = [
            (0, percent), (2, bytes.rightAligned(to: 6)), (4, rate.rightAligned(to: 8)),
            (1, failed), (3, (left.map { "\($0) left" } ?? "").padded(to: 16)),
        ]
        for rank in stride(from: figures.count - 1, through: 0, by: -1) {
            let end = figures.compactMap { $0.rank <= rank ? $0.text : nil }.joined(separator: "  ")
            // The six columns are the two brackets of the bar, and two spaces on either side of them.
            let room = columns - count.count - end.count - 6
            guard room >= Self.minBarWidth else { continue }
            let line = "\(count)  [\(drawn(min(room, Self.maxBarWidth)))]  \(end)"
            return String(line[...(line.lastIndex { $0 != " " } ?? line.startIndex)])
        }
        return ["\(count) \(percent)", "\(tally.percent)%"].first { $0.count <= columns } ?? ""
    }

    private func drawn(_ width: Int) -> String {
        let full = tally.total > 0 ? tally.settled * width / tally.total : width
        let head = full < width ? ">" : ""
        return String(repeating: "=", count: full) + head + String(repeating: " ", count: width - full - head.count)
    }

    private var bytes: String { Human.bytes(tally.bytes) }
    private var rate: String { "\(Human.bytes(bytesPerSecond))/s" }
    private var left: String? {
        guard tally.settled < tally.total else { return nil }
        return millisecondsLeft.map { Human.span(milliseconds: $0 + 999) }
    }
    private var failed: String? { tally.failed > 0 ? "\(tally.failed) failed" : nil }
}

/// Estimates the current rate of a prefetch and its remaining time.
///
/// Both are based on the last ten seconds. An average since the start would be far too high during the first minutes,
/// because images that are already cached are done immediately. The type has no clock; the time is passed to it.
struct ProgressMeter {
    private struct Sample {
        let at: Duration
        let tally: PrefetchTally
    }

    private static let window = Duration.seconds(10)
    /// The minimum time between two samples.
    private static let spacing = Duration.milliseconds(250)

    private var samples: [Sample]

    /// Starts the measurement.
    /// - Parameter now: the time on a monotonic clock.
    init(_ tally: PrefetchTally, at now: Duration) {
        samples = [Sample(at: now, tally: tally)]
    }

    /// Records the current progress.
    mutating func note(_ tally: PrefetchTally, at now: Duration) {
        // Keep one sample that is at least as old as the window, so that the samples span the whole window.
        while samples.count > 1, now - samples[1].at >= Self.window { samples.removeFirst() }
        if samples.count > 1, samples[samples.count - 1].at - samples[samples.count - 2].at < Self.spacing {
            samples.removeLast()
        }
        samples.append(Sample(at: now, tally: tally))
    }

    /// The rate in bytes per second; 0 if it is not known yet.
    var bytesPerSecond: Int { Int(clamping: Int64(pace(\.bytes).rounded())) }

    /// The estimated time, in milliseconds, until every image is done or has failed; nil if no image was done or failed
    /// within the last ten seconds.
    var millisecondsLeft: Int? {
        guard let tally = samples.last?.tally else { return nil }
        let left = tally.total - tally.settled
        if left == 0 { return 0 }
        let pace = pace(\.settled)
        return pace > 0 ? Int((Double(left) / pace * 1000).rounded()) : nil
    }

    private func pace(_ figure: KeyPath<PrefetchTally, Int>) -> Double {
        guard let first = samples.first, let last = samples.last else { return 0 }
        let seconds = (last.at - first.at) / .seconds(1)
        return seconds > 0 ? Double(last.tally[keyPath: figure] - first.tally[keyPath: figure]) / seconds : 0
    }
}

/// The progress of a prefetch.
struct PrefetchTally: Equatable {
    /// The number of images that are in the cache: those that were downloaded and those that were already cached.
    var done = 0
    /// The number of images that could not be cached.
    var failed = 0
    /// Bytes downloaded for the images.
    var bytes = 0
    /// The number of requested images.
    var total: Int

    /// The number of images that are done or have failed.
    var settled: Int { done + failed }

    /// The percentage of images that are done or have failed. It is rounded down, so 100 means that all of them are.
    var percent: Int { total > 0 ? settled * 100 / total : 100 }
}
