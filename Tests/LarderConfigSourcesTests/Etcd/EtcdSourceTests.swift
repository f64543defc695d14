import LarderPlatform
import LarderUpstream
import Logging
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("etcd source")
struct EtcdSourceTests {
    @Test("the wait before the first watch begins before a fetch can end it")
    func wait() async throws {
        let settings = EtcdSourceSettings(endpoints: ["http://127.0.0.1:1"], keys: .prefix("/a/"))
        let fetcher = HTTPFetcher(configuration: .init(version: "1"))
        let clock = ManualClock()
        let client = EtcdClient(
            settings, fetcher: fetcher, blocking: BlockingWork(.singleton), startingAt: 0, clock: clock)
        let source = EtcdSource(
            settings, client: client,
            plan: ReconnectPlan(window: .seconds(30), firstFetchWindow: .seconds(2), seed: "a"), clock: clock,
            generator: SeededGenerator(seed: 1), logger: Logger(label: "test"))
        let changes = source.changes(after: .seconds(60))
        guard case .pause(let time) = source.state.withLock({ $0.follower.step.task }) else {
            Issue.record("the source does not wait")
            return
        }
        #expect(time >= .seconds(60))
        withExtendedLifetime(changes) {}
        await fetcher.shutdown()
    }
}
