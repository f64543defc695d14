import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderUpstream
import NIOPosix
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("Opening an event stream again", .timeLimit(.minutes(5)))
struct StreamReconnectTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"

    /// Follows a stream whose connections take these steps in order. The last steps are repeated.
    private func follow<Value: Sendable>(
        _ connections: [RawOrigin.Answer], _ body: (SSESource, ManualClock) async throws -> Value
    ) async throws -> Value {
        try await RawOrigin.serve({ number, _ in connections[min(number, connections.count - 1)] }) { origin in
            let clock = ManualClock()
            let fetcher = HTTPFetcher(configuration: .init(version: "1"))
            let source = SSESource(
                configuration: .init(url: origin.url, heartbeat: Self.hour * 2, timeout: Self.hour * 2),
                plan: Self.plan, fetcher: fetcher, blocking: BlockingWork(.singleton), clock: clock,
                generator: SeededGenerator(seed: 1))
            let changes = source.changes()
            defer { withExtendedLifetime(changes) {} }
            let value = try await body(source, clock)
            await fetcher.shutdown()
            return value
        }
    }

    /// Nothing but the pause after a connection sleeps for less.
    private static let hour = Duration.seconds(3_600)

    /// The pause after a connection, once it has begun.
    private func pause(_ clock: ManualClock) async -> Duration {
        while true {
            if let next = clock.nextDeadline, clock.now.duration(to: next) < Self.hour {
                return clock.now.duration(to: next)
            }
            await Task.yield()
        }
    }

    /// The waits after these connections.
    private func waits(after connections: [RawOrigin.Answer]) async throws -> [Duration] {
        try await follow(connections) { _, clock in
            var waits: [Duration] = []
            for _ in connections {
                waits.append(await pause(clock))
                clock.advance(by: waits[waits.count - 1])
            }
            return waits
        }
    }

    private static let plan = ReconnectPlan(window: .seconds(30), firstFetchWindow: .seconds(2), seed: "a")

    @Test(
        "a stream that delivered a document is opened again after the host's splay, however short and however it ended")
    func delivered() async throws {
        let document = RawOrigin.Step.send(Self.head + "data: {\"v\":1}\n\n")
        let ends: [RawOrigin.Answer] = [
            [document, .close], [document, .close], [document, .send("data: {"), .close], [document, .close],
        ]
        #expect(try await waits(after: ends) == ends.map { _ in Self.plan.splay })
    }

    @Test("a stream that resumed and that its origin ended in order is opened again after the host's splay")
    func resumed() async throws {
        let document: RawOrigin.Answer = [.send(Self.head + "id: 1\ndata: {\"v\":1}\n\n"), .close]
        let nothingNew: RawOrigin.Answer = [.send(Self.head + ": nothing is new\n\n"), .close]
        let ends = [document, nothingNew, nothingNew, nothingNew]
        #expect(try await waits(after: ends) == ends.map { _ in Self.plan.splay })
    }

    @Test("what the origin asks for by retry: comes before the splay")
    func retry() async throws {
        let ends: [RawOrigin.Answer] = [[.send(Self.head + "retry: 7000\ndata: {}\n\n"), .close]]
        #expect(try await waits(after: ends) == [.seconds(7) + Self.plan.splay])
    }

    @Test("waits grow while connections deliver nothing, and begin anew after a document")
    func failures() async throws {
        let nothing: RawOrigin.Answer = [.send(Self.head), .close]
        let garbage: RawOrigin.Answer = [.send(Self.head + "data: {}\n\ndata: <html>\n\n"), .close]
        let document: RawOrigin.Answer = [.send(Self.head + "data: {\"v\":1}\n\n"), .close]
        let waits = try await waits(after: [nothing, nothing, nothing, garbage, document, [.close], [.close]])
        var (plan, generator) = (Self.plan, SeededGenerator(seed: 1))
        let ends: [ReconnectPlan.End] = [.failed, .failed, .failed, .failed, .delivered, .failed, .failed]
        #expect(waits == ends.map { plan.delay(after: $0, using: &generator) })
    }

    @Test("a refresh that a client asks for does not wait for the splay")
    func refresh() async throws {
        let document: RawOrigin.Answer = [.send(Self.head + "data: {\"v\":1}\n\n"), .close]
        try await follow([document]) { source, clock in
            _ = await pause(clock)
            let answer = try await source.fetch(ifChangedFrom: nil, on: .asked)
            guard case .document(let document) = answer else { throw HarnessError("no document") }
            #expect(document.value == ["v": 1])
        }
    }
}
