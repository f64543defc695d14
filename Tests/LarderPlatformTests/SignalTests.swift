import LarderPlatform
import Synchronization
import Testing

@Suite("Signals")
struct SignalTests {
    @Test("a signal that is raised repeatedly wakes the receiver only once until the receiver takes the signal")
    func coalesced() {
        let wakeUps = Atomic<Int>(0)
        let signal = Signal { _ in wakeUps.add(1, ordering: .relaxed) }
        #expect(!signal.take())
        for _ in 1...3 { signal.raise() }
        #expect(wakeUps.load(ordering: .relaxed) == 1)
        #expect(signal.take())
        #expect(!signal.take())
        signal.raise()
        #expect(wakeUps.load(ordering: .relaxed) == 2)
    }

    @Test("the stream of a signal delivers several raises as one element, and ends when the signal finishes")
    func stream() async {
        let (signal, wakeUps) = Signal.makeStream()
        signal.raise()
        signal.raise()
        signal.finish()
        var count = 0
        for await _ in wakeUps { count += 1 }
        #expect(count == 1)
    }
}
