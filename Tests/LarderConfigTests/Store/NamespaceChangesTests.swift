import ConfigTestSupport
import LarderConfigModel
import LarderJSON
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfig

@Suite("Changes of all namespaces", .timeLimit(.minutes(5)))
struct NamespaceChangesTests {
    @Test("each consumer gets an element after each publication, also after another consumer has ended")
    func consumers() async throws {
        let scratch = try ScratchDirectory()
        let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
        let namespaces = try await ConfigNamespaces(
            [NamespaceConfiguration(name: "default")], stateDirectory: scratch.at("state"), threads: SharedThreads.pool,
            fetcher: fetcher, hostIdentity: "host", clock: ManualClock(), logger: .silent)
        let store = try #require(namespaces["default"]).store
        func set(_ number: Int) async throws {
            _ = try await store.commit(.set(path: ["a"], value: .int(number), timeToLive: nil, by: nil))
        }
        var first = namespaces.changes().makeAsyncIterator()
        var second = namespaces.changes().makeAsyncIterator()
        #expect(await first.next() != nil)
        #expect(await second.next() != nil)
        for number in 1...3 {
            try await set(number)
            #expect(await first.next() != nil)
            #expect(await second.next() != nil)
        }
        let third = Task { for await _ in namespaces.changes() {} }
        third.cancel()
        await third.value
        try await set(4)
        #expect(await first.next() != nil)
        #expect(await second.next() != nil)
        await namespaces.stop()
        await fetcher.shutdown()
    }
}
