import Synchronization
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Progress of a prefetch")
struct PrefetchProgressTests {
    private func line(
        _ done: Int, of total: Int, failed: Int = 0, bytes: Int = 38_000_000, rate: Int = 1_200_000, left: Int? = 71_001
    ) -> ProgressLine {
        ProgressLine(
            tally: PrefetchTally(done: done, failed: failed, bytes: bytes, total: total), bytesPerSecond: rate,
            millisecondsLeft: left)
    }

    @Test(
        "the bar fills the rest of the line; on a narrow terminal, the least important figures and then the bar are omitted"
    )
    func widths() {
        let half = line(498, of: 1000, failed: 2)
        for (columns, text) in [
            (99, " 500/1000  [=================>                ]   50%   38 MB  1.2 MB/s  2 failed  1 min 12 s left"),
            (79, " 500/1000  [=======>      ]   50%   38 MB  1.2 MB/s  2 failed  1 min 12 s left"),
            (70, " 500/1000  [=======>       ]   50%   38 MB  2 failed  1 min 12 s left"),
            (50, " 500/1000  [======>      ]   50%   38 MB  2 failed"),
            (40, " 500/1000  [=====>     ]   50%  2 failed"), (30, " 500/1000  [=====>     ]   50%"),
            (20, " 500/1000  50%"), (5, "50%"), (0, ""),
        ] {
            #expect(half.bar(columns: columns) == text)
        }
    }

    @Test("a progress line is at most as wide as the terminal, and at most 120 columns wide")
    func limits() {
        for columns in 0...300 {
            for one in [line(3, of: 7, failed: 4), line(0, of: 100_000, left: nil), line(1, of: 1, left: 0)] {
                #expect(one.bar(columns: columns).count <= min(columns, 120))
            }
        }
        #expect(line(7, of: 7).bar(columns: 60) == "7/7  [===========]  100%   38 MB  1.2 MB/s")
    }

    @Test("a progress line without a bar has the same figures as one with a bar, and 100 % only at the end")
    func plain() {
        #expect(
            line(412, of: 1000, failed: 3).plain
                == "415 of 1000 images, 41 %, 38 MB, 1.2 MB/s, 1 min 12 s left, 3 failed")
        #expect(line(999, of: 1000, left: nil).plain == "999 of 1000 images, 99 %, 38 MB, 1.2 MB/s")
        #expect(line(1, of: 1, bytes: 500, rate: 0).plain == "1 of 1 image, 100 %, 500 B, 0 B/s")
    }

    @Test("rate and remaining time are computed from the last 10 s")
    func meter() {
        var meter = ProgressMeter(PrefetchTally(total: 1000), at: .zero)
        #expect(meter.bytesPerSecond == 0)
        #expect(meter.millisecondsLeft == nil)
        // 500 images are cached and complete immediately. Then 10 images and 1 MB are downloaded per second.
        for second in 1...30 {
            let tally = PrefetchTally(done: 500 + second * 10, bytes: second * 1_000_000, total: 1000)
            meter.note(tally, at: .seconds(second))
        }
        #expect(meter.bytesPerSecond == 1_000_000)
        #expect(meter.millisecondsLeft == 20_000)
        // Then no image is completed.
        let last = PrefetchTally(done: 800, bytes: 30_000_000, total: 1000)
        for second in 31...35 { meter.note(last, at: .seconds(second)) }
        #expect(meter.bytesPerSecond == 500_000)
        for second in 36...45 { meter.note(last, at: .seconds(second)) }
        #expect(meter.bytesPerSecond == 0)
        #expect(meter.millisecondsLeft == nil)
        meter.note(PrefetchTally(done: 900, failed: 100, bytes: 30_000_000, total: 1000), at: .seconds(46))
        #expect(meter.millisecondsLeft == 0)
    }

    @Test("frequent progress updates do not shorten the period over which the download rate is measured")
    func manyUpdates() {
        var meter = ProgressMeter(PrefetchTally(total: 100_000), at: .zero)
        for step in 1...20_000 {
            meter.note(PrefetchTally(done: step, bytes: step * 1000, total: 100_000), at: .milliseconds(step))
        }
        #expect(abs(meter.bytesPerSecond - 1_000_000) < 1000)
        #expect(meter.millisecondsLeft.map { abs($0 - 80_000) < 100 } == true)
    }

    @Test("on a terminal one line is redrawn in place, at the current width of the terminal")
    func terminal() async {
        let terminal = FakeTerminal(columns: 60)
        let display = ProgressDisplay(PrefetchTally(total: 10), on: terminal.screen)
        #expect(terminal.lines == [""])
        await display.show(PrefetchTally(done: 1, bytes: 1000, total: 10))
        #expect(terminal.lines == [" 1/10  [=>                ]   10%  1.0 kB"])
        terminal.advance(.seconds(1))
        await display.show(PrefetchTally(done: 5, failed: 1, bytes: 2_000_000, total: 10))
        #expect(terminal.lines == [" 6/10  [===============>          ]   60%  2.0 MB  1 failed"])
        terminal.resize(30)
        await display.draw()
        #expect(terminal.lines == [" 6/10  [========>     ]   60%"])
        await display.show(PrefetchTally(done: 9, failed: 1, bytes: 2_000_000, total: 10))
        await display.end()
        await display.end()
        #expect(terminal.lines == ["10/10  [==============]  100%", ""])
    }

    @Test("without a terminal a plain line is printed every 5 s, without control characters")
    func noTerminal() async {
        let terminal = FakeTerminal(columns: nil)
        let display = ProgressDisplay(PrefetchTally(total: 100), on: terminal.screen)
        for second in 1...11 {
            terminal.advance(.seconds(1))
            await display.show(PrefetchTally(done: second, bytes: second * 1000, total: 100))
        }
        await display.end()
        #expect(
            terminal.lines == [
                "5 of 100 images, 5 %, 5.0 kB, 1.0 kB/s, 1 min 35 s left",
                "10 of 100 images, 10 %, 10 kB, 1.0 kB/s, 1 min 30 s left", "",
            ])
    }
}

/// A simulated terminal that supports the control characters of the progress bar; a file if `columns` is nil.
private final class FakeTerminal: Sendable {
    private struct State {
        var columns: Int?
        var now = Duration.zero
        var lines = [""]
        var cursor = 0
    }

    private let state: Mutex<State>

    init(columns: Int?) { state = Mutex(State(columns: columns)) }

    /// The visible lines.
    var lines: [String] { state.withLock { $0.lines } }

    var screen: ProgressDisplay.Screen {
        ProgressDisplay.Screen(
            write: { self.write($0) }, columns: { self.state.withLock { $0.columns } },
            now: { self.state.withLock { $0.now } })
    }

    func advance(_ time: Duration) { state.withLock { $0.now += time } }
    func resize(_ columns: Int) { state.withLock { $0.columns = columns } }

    private func write(_ text: String) {
        state.withLock { state in
            var rest = text[...]
            while let character = rest.first {
                let row = state.lines.count - 1
                if rest.hasPrefix("\u{1B}[K") {
                    state.lines[row] = String(state.lines[row].prefix(state.cursor))
                    rest = rest.dropFirst(3)
                    continue
                }
                rest = rest.dropFirst()
                switch character {
                case "\r": state.cursor = 0
                case "\n":
                    state.lines.append("")
                    state.cursor = 0
                default:
                    var line = Array(state.lines[row])
                    if state.cursor < line.count { line[state.cursor] = character } else { line.append(character) }
                    state.lines[row] = String(line)
                    state.cursor += 1
                    #expect(
                        state.columns.map { state.cursor < $0 } ?? !character.unicodeScalars.contains { $0.value < 32 })
                }
            }
        }
    }
}
