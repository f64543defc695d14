import ConfigTestSupport
import Foundation
@testable import LarderConfigSources
import LarderPlatform
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfig

@Suite("Restart with an event stream", .timeLimit(.minutes(15)))
struct StreamRestartTests {
    private static let now = 1_700_000_000_000
    private static let answer: RawOrigin.Answer = [
        .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"v\":1}\n\n")
    ]

    private func settings(_ origin: RawOrigin) -> NamespaceConfiguration {
        var sse = SSESourceSettings(url: origin.url, heartbeat: .seconds(86_400))
        sse.firstFetchWindow = .zero
        return NamespaceConfiguration(name: "default", remote: .sse(sse))
    }

    /// A host whose first poll is due after its stream has connected, whatever the uptime.
    private func host(_ settings: NamespaceConfiguration) throws -> (identity: String, schedule: PollSchedule) {
        var generator = SeededGenerator(seed: 1)
        for number in 0..<1_000 {
            let identity = "host-\(number)"
            let schedule = try #require(settings.remote?.schedule(hostIdentity: identity))
            var plan = PollPlan(schedule)
            let poll = plan.delay(after: .restarted, at: .milliseconds(Self.now), using: &generator)
            let connection = schedule.connectionDelay(after: .started(holding: true))
            if connection > .seconds(40), poll > connection + .seconds(30) { return (identity, schedule) }
        }
        throw HarnessError("no such host")
    }

    private func waitUntilFresh(_ namespaces: ConfigNamespaces) async throws {
        let (states, reporter) = AsyncStream.makeStream(of: Freshness.self)
        try #require(namespaces["default"]).publication.observeStatus { reporter.yield($0.freshness) }
        for await state in states where state == .fresh { return }
    }

    @Test(
        "a stream connects later if the host has just booted than if only the agent was restarted",
        arguments: [600, 601])
    func delay(uptime: Int) async throws {
        let directory = NSTemporaryDirectory() + "/larder-stream-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: directory) }
        try await RawOrigin.serve({ _, _ in Self.answer }) { origin in
            let settings = settings(origin)
            let (identity, schedule) = try host(settings)
            let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
            func open(_ clock: ManualClock) async throws -> ConfigNamespaces {
                try await ConfigNamespaces(
                    [settings], stateDirectory: directory, threads: SharedThreads.pool, fetcher: fetcher,
                    hostIdentity: identity, clock: clock, wallClock: WallClock { Self.now },
                    hostUptime: { .seconds(uptime) }, generator: SeededGenerator(seed: 1), logger: .silent)
            }
            let first = try await open(ManualClock())
            first.start()
            try await waitUntilFresh(first)
            await first.stop()

            let clock = ManualClock()
            let second = try await open(clock)
            #expect(second["default"]?.publication.current.freshness == .refreshing)
            second.start()
            // The stream and the first poll wait.
            await clock.waitForSleepers(2)
            let delay = schedule.connectionDelay(after: uptime > 600 ? .restarted : .started(holding: true))
            #expect(clock.nextDeadline == clock.now.advanced(by: delay))
            clock.advance(by: delay)
            try await waitUntilFresh(second)
            await second.stop()
            await fetcher.shutdown()
        }
    }
}
