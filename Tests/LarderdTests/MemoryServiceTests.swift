import Testing

@testable import larderd

@Suite("Returning free memory")
struct MemoryServiceTests {
    @Test("memory is returned again and again until the agent stops")
    func repeated() async {
        let (trims, continuation) = AsyncStream.makeStream(of: Void.self)
        let service = MemoryService(interval: .milliseconds(1)) { continuation.yield() }
        let task = Task { await service.run() }
        var seen = trims.makeAsyncIterator()
        for _ in 1...3 { await seen.next() }
        task.cancel()
        await task.value
    }
}
