import Glibc
import Logging
import Synchronization
import Testing

@testable import larderd

@Suite("Limit of threads")
struct ThreadGuardTests {
    private enum Event: Equatable {
        case problem(Bool)
        case stop, exit
    }

    @Test("a stop without threads ends within 5 s, of which 1 s is left for a busy machine")
    func defaultTimes() {
        let timing = ThreadGuard.Timing()
        #expect(timing.patience + timing.stopInterval <= 4_000)
    }

    @Test("a failure to start a thread is reported once, and its end; a stop without threads ends the process")
    func events() async throws {
        var ends: [CInt] = [-1, -1]
        try #require(pipe(&ends) == 0)
        let signal = ends[1]
        let (events, event) = AsyncStream.makeStream(of: Event.self)
        let results = Mutex<[CInt]>([EAGAIN, EAGAIN, 0])
        let threads = ThreadGuard(
            .init(
                stop: { event.yield(.stop) },
                threadProblem: { problem in
                    #expect(problem?.contains("LimitNPROC=") ?? true)
                    event.yield(.problem(problem != nil))
                },
                probe: { results.withLock { $0.isEmpty ? 0 : $0.removeFirst() } }, exit: { event.yield(.exit) }),
            timing: .init(interval: 1, patience: 0, stopInterval: 1), Logger(label: "test"))
        try threads.start(ends[0])
        var iterator = events.makeAsyncIterator()
        #expect(await iterator.next() == .problem(true))
        #expect(await iterator.next() == .problem(false))
        _ = write(signal, "x", 1)
        #expect(await iterator.next() == .stop)
        results.withLock { $0 = [EAGAIN] }
        #expect(await iterator.next() == .problem(true))
        #expect(await iterator.next() == .exit)
        for end in ends { close(end) }
    }
}
