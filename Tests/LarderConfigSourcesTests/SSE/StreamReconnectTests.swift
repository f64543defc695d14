import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderUpstream
import NIOPosix
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("Event stream reconnection", .timeLimit(.minutes(15)))
struct StreamReconnectTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    /// Follows the stream of an origin. Each connection gets the next response in `connections`. After the last
    /// response, all further connections get the last response.
    private func follow<Value: Sendable>(
        _ connections: [RawOrigin.Answer], _ body: (SSESource, ManualClock) async throws -> Value
    ) async throws -> Value {
        try await RawOrigin.serve({ number, _ in connections[min(number, connections.count - 1)] }) { origin in
            let clock = ManualClock()
            let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
            let source = SSESource(
                configuration: .init(url: origin.url, heartbeat: Self.hour * 2, timeout: Self.hour * 2),
                plan: Self.plan, fetcher: fetcher, blocking: BlockingThreadPool(.singleton), clock: clock,
                generator: SeededGenerator(seed: 1))
            let documents = source.documents(after: .zero) { nil }
            defer { withExtendedLifetime(documents) {} }
            let value = try await body(source, clock)
            await fetcher.shutdown()
            return value
        }
    }

    /// This time is longer than any pause between connections, and shorter than all other sleeps of the source.
    private static let hour = Duration.seconds(3_600)

    /// Waits for a pause between connections.
    /// - Returns: the length of the pause
    private func pause(_ clock: ManualClock) async -> Duration {
        while true {
            if let next = clock.nextDeadline, clock.now.duration(to: next) < Self.hour {
                return clock.now.duration(to: next)
            }
            await Task.yield()
        }
    }

    /// Returns the pauses after connections with these responses.
    private func pauses(after connections: [RawOrigin.Answer]) async throws -> [Duration] {
        try await follow(connections) { _, clock in
            var pauses: [Duration] = []
            for _ in connections {
                pauses.append(await pause(clock))
                clock.advance(by: pauses[pauses.count - 1])
            }
            return pauses
        }
    }

    private static let plan = ReconnectPlan(window: .seconds(30), firstFetchWindow: .seconds(2), seed: "a")

    @Test("a stream that delivered a document reconnects after the splay of the host, regardless of how it ended")
    func delivered() async throws {
        let document = RawOrigin.Step.send(Self.head + "data: {\"v\":1}\n\n")
        let ends: [RawOrigin.Answer] = [
            [document, .close], [document, .close], [document, .send("data: {"), .close], [document, .close],
        ]
        #expect(try await pauses(after: ends) == ends.map { _ in Self.plan.splay })
    }

    @Test("a stream that resumed and was closed cleanly reconnects after the splay of the host")
    func resumed() async throws {
        let document: RawOrigin.Answer = [.send(Self.head + "id: 1\ndata: {\"v\":1}\n\n"), .close]
        let unchanged: RawOrigin.Answer = [.send(Self.head + ": nothing is new\n\n"), .close]
        let ends = [document, unchanged, unchanged, unchanged]
        #expect(try await pauses(after: ends) == ends.map { _ in Self.plan.splay })
    }

    @Test("the splay is added to the delay that the origin requests with `retry:`")
    func retry() async throws {
        let ends: [RawOrigin.Answer] = [[.send(Self.head + "retry: 7000\ndata: {}\n\n"), .close]]
        #expect(try await pauses(after: ends) == [.seconds(7) + Self.plan.splay])
    }

    @Test("pauses grow while connections deliver no valid document, and are reset by a document")
    func failures() async throws {
        let empty: RawOrigin.Answer = [.send(Self.head), .close]
        let garbage: RawOrigin.Answer = [.send(Self.head + "data: {}\n\ndata: <html>\n\n"), .close]
        let document: RawOrigin.Answer = [.send(Self.head + "data: {\"v\":1}\n\n"), .close]
        let pauses = try await pauses(after: [empty, empty, empty, garbage, document, [.close], [.close]])
        var (plan, generator) = (Self.plan, SeededGenerator(seed: 1))
        let ends: [ReconnectPlan.End] = [.failed, .failed, .failed, .failed, .delivered, .failed, .failed]
        #expect(pauses == ends.map { plan.delay(after: $0, using: &generator) })
    }

    @Test("a refresh by a client does not wait for the splay")
    func refresh() async throws {
        let document: RawOrigin.Answer = [.send(Self.head + "data: {\"v\":1}\n\n"), .close]
        try await follow([document]) { source, clock in
            _ = await pause(clock)
            let answer = try await source.fetch(ifChangedFrom: nil, reason: .requested)
            guard case .document(let document) = answer else { throw HarnessError("no document") }
            #expect(document.value == ["v": 1])
        }
    }
}
