import LarderUpstream
import Synchronization
import Testing

@Suite("Memory that nobody uses")
struct SpareMemoryTests {
    /// What waits until its time has come, and how often memory was given back.
    private final class Record: Sendable {
        private let waiting = Mutex<[@Sendable () -> Void]>([])
        private let given = Atomic<Int>(0)

        var memory: SpareMemory {
            SpareMemory(
                later: { action in self.waiting.withLock { $0.append(action) } },
                giveBack: { self.given.add(1, ordering: .relaxed) })
        }

        var waitingCount: Int { waiting.withLock(\.count) }
        var givenBack: Int { given.load(ordering: .relaxed) }

        func timePasses() {
            for action in waiting.withLock({ waiting in
                defer { waiting = [] }
                return waiting
            }) { action() }
        }
    }

    @Test("it is given back once for all that was freed in a while, and again when more was")
    func givenBack() {
        let record = Record()
        let memory = record.memory
        for round in 1...3 {
            memory.freed(1 << 20)
            #expect(record.waitingCount == 1)
            #expect(record.givenBack == round - 1)
            record.timePasses()
            #expect(record.givenBack == round)
            #expect(record.waitingCount == 0)
        }
    }

    @Test("what is freed while the rest waits to be given back has a while of its own")
    func meanwhile() {
        let record = Record()
        let memory = record.memory
        memory.freed(1 << 20)
        for round in 1...3 {
            memory.freed(1)
            #expect(record.waitingCount == 1)
            record.timePasses()
            #expect(record.givenBack == round)
        }
        #expect(record.waitingCount == 1)
        record.timePasses()
        #expect(record.givenBack == 4)
        #expect(record.waitingCount == 0)
    }

    @Test("memory that comes and goes all the time is left alone until it does not, or for a minute")
    func comesAndGoes() {
        let record = Record()
        let memory = record.memory
        memory.freed(1 << 20)
        for _ in 1...12 {
            memory.freed(1 << 20)
            record.timePasses()
            #expect(record.givenBack == 0)
            #expect(record.waitingCount == 1)
        }
        memory.freed(1 << 20)
        record.timePasses()
        #expect(record.givenBack == 1)
        memory.freed(1 << 20)
        record.timePasses()
        #expect(record.givenBack == 1)
        record.timePasses()
        #expect(record.givenBack == 2)
        #expect(record.waitingCount == 0)
    }

    @Test("little is left to the allocator until it is much together")
    func little() {
        let record = Record()
        let memory = record.memory
        for _ in 0..<15 { memory.freed(64 << 10) }
        #expect(record.waitingCount == 0)
        memory.freed(64 << 10)
        #expect(record.waitingCount == 1)
    }
}
