import LarderProtocol
import NIOCore
import NIOEmbedded
import Testing

@testable import LarderServer

@Suite("Progress notifications")
struct ProgressNotifierTests {
    private func progress(_ done: Int) -> ImageProgress {
        ImageProgress(request: RequestID(1), done: done, failed: 0, bytes: 0, total: 100)
    }

    @Test("at most ten notifications per second are sent, each with the newest progress")
    func rate() {
        let loop = EmbeddedEventLoop()
        var sent: [Int] = []
        let report = ProgressNotifier<ImageProgress>(on: loop, isOutputPending: { false }) { sent.append($0.done) }
        report.note(progress(1))
        #expect(sent == [1])
        for step in 2...50 {
            report.note(progress(step))
            loop.advanceTime(by: .milliseconds(10))
        }
        // The steps take 490 ms. Notifications are sent after 0, 100, 200, 300 and 400 ms.
        #expect(sent.count == 5 && sent == sent.sorted())
        report.end(with: progress(100))
        #expect(sent.last == 100 && sent.count == 6)
        loop.advanceTime(by: .seconds(1))
        report.note(progress(100))
        #expect(sent.count == 6)
    }

    @Test("while output is pending, only the final progress is sent; afterwards the newest progress is sent")
    func output() {
        let loop = EmbeddedEventLoop()
        var (sent, isPending): ([Int], Bool) = ([], true)
        let report = ProgressNotifier<ImageProgress>(on: loop, isOutputPending: { isPending }) { sent.append($0.done) }
        for step in 1...5 {
            report.note(progress(step))
            loop.advanceTime(by: .seconds(1))
        }
        #expect(sent.isEmpty)
        isPending = false
        loop.advanceTime(by: .seconds(1))
        #expect(sent == [5])
        isPending = true
        report.note(progress(6))
        report.end(with: progress(7))
        #expect(sent == [5, 7])
    }

    @Test("the same progress is not sent twice, and a cancelled prefetch sends no final progress")
    func end() {
        let loop = EmbeddedEventLoop()
        var sent: [Int] = []
        let report = ProgressNotifier<ImageProgress>(on: loop, isOutputPending: { false }) { sent.append($0.done) }
        report.note(progress(100))
        report.end(with: progress(100))
        #expect(sent == [100])
        let other = ProgressNotifier<ImageProgress>(on: loop, isOutputPending: { false }) { sent.append($0.done) }
        other.end(with: nil)
        #expect(sent == [100])
    }
}
