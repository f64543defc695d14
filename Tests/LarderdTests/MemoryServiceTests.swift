import Testing

@testable import larderd

@Suite("Release of free memory")
struct MemoryServiceTests {
    @Test("free memory is released periodically until the agent stops")
    func repeated() async {
        let (trims, continuation) = AsyncStream.makeStream(of: Void.self)
        let service = MemoryService(interval: .milliseconds(1)) { continuation.yield() }
        let task = Task { await service.run() }
        var iterator = trims.makeAsyncIterator()
        for _ in 1...3 { await iterator.next() }
        task.cancel()
        await task.value
    }
}
