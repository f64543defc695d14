import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderProtocol
import LarderUpstream
import Logging
import Synchronization
import TestSupport
import Testing

@testable import LarderServer

@Suite("Reports of the host", .timeLimit(.minutes(5)))
struct ReporterTests {
    private static let hour = Duration.seconds(3600)

    private static var settings: ReportSettings {
        var settings = ReportSettings(url: "https://fleet.example/report")
        // Within the tests, only changes cause reports.
        settings.interval = hour
        settings.labels = ["site": "berlin"]
        return settings
    }

    @Test("the first report follows within splaySeconds, and has the state of each namespace")
    func content() async throws {
        try await Receiver.with { receiver in
            let namespace = try #require(receiver.context.namespaces["default"])
            let revision = try await namespace.store.set(JSONPath(["a"]), to: 1, timeToLive: nil).revision
            receiver.acknowledge(revision, by: 1, accepted: true)
            receiver.acknowledge(revision, by: 2, accepted: true)
            receiver.acknowledge(revision, by: 3, accepted: false)
            await receiver.reporter.use(Self.settings)
            let report = try #require(await receiver.next(within: 60))
            #expect(report["format"] == 1)
            #expect(report["host"] == "kiosk-7")
            #expect(report["hostId"] == "0123456789abcdef0123456789abcdef")
            #expect(report["labels"] == ["site": "berlin"])
            #expect(report["agent"] == "1.2.3")
            #expect(report["sentAt"] == "2023-11-14T22:13:20.000Z")
            #expect(report["intervalSeconds"] == 3600)
            let reported = try #require(report["namespaces"]?[0])
            #expect(report["namespaces"]?[1] == nil)
            #expect(reported["namespace"] == "default")
            #expect(reported["state"] == "fresh")
            #expect(reported["revision"] == JSONValue.int(revision))
            let digest = namespace.publication.current.snapshot.digest
            #expect(reported["digest"] == JSONValue.string("sha256:\(digest)"))
            #expect(reported["overrides"] == 1)
            #expect(reported["experiments"] == [])
            #expect(reported["version"] == nil && reported["rejected"] == nil && reported["lastError"] == nil)
            let clients = try #require(reported["clients"])
            #expect(clients[0]?["accepted"] == false && clients[0]?["count"] == 1)
            #expect(clients[1]?["accepted"] == true && clients[1]?["count"] == 2)
            #expect(clients[2] == nil && clients[0]?["reason"] == nil)
        }
    }

    @Test("the reasons of clients are reported only if the settings include them")
    func reasons() async throws {
        try await Receiver.with { receiver in
            receiver.acknowledge(1, by: 3, accepted: false)
            var settings = Self.settings
            settings.includesReasons = true
            await receiver.reporter.use(settings)
            let report = try #require(await receiver.next(within: 60))
            #expect(report["namespaces"]?[0]?["clients"]?[0]?["reason"] == "no")
        }
    }

    @Test("changes of the configuration and of acknowledgements are reported, at most every 30 s")
    func changes() async throws {
        try await Receiver.with { receiver in
            let namespace = try #require(receiver.context.namespaces["default"])
            await receiver.reporter.use(Self.settings)
            _ = try #require(await receiver.next(within: 60))
            var last = receiver.clock.now
            let revision = try await namespace.store.set(JSONPath(["a"]), to: 1, timeToLive: nil).revision
            let second = try #require(await receiver.next(within: 100))
            #expect(second["namespaces"]?[0]?["revision"] == JSONValue.int(revision))
            #expect(last.duration(to: receiver.clock.now) >= ReportPlan.minPause)
            last = receiver.clock.now
            receiver.acknowledge(revision, by: 1, accepted: true)
            let third = try #require(await receiver.next(within: 100))
            #expect(third["namespaces"]?[0]?["clients"]?[0]?["revision"] == JSONValue.int(revision))
            #expect(last.duration(to: receiver.clock.now) >= ReportPlan.minPause)
            #expect(await receiver.next(within: 600) == nil)
        }
    }

    @Test("a publication and an acknowledgement wake the reporter")
    func signals() async throws {
        try await Receiver.with { receiver in
            let namespace = try #require(receiver.context.namespaces["default"])
            let reporter = receiver.reporter
            await reporter.use(Self.settings)
            _ = try #require(await receiver.next(within: 60))
            let revision = try await namespace.store.set(JSONPath(["a"]), to: 1, timeToLive: nil).revision
            await receiver.waitForPlannedReport()
            _ = try #require(await receiver.next(within: 100))
            receiver.acknowledge(revision, by: 1, accepted: true)
            await receiver.waitForPlannedReport()
        }
    }

    @Test("a failed report is a problem until one is accepted, and changes do not repeat it early")
    func failure() async throws {
        try await Receiver.with { receiver in
            let namespace = try #require(receiver.context.namespaces["default"])
            receiver.answer(UpstreamError(.status, "returned status 500", status: 500))
            await receiver.reporter.use(Self.settings)
            _ = try #require(await receiver.next(within: 60))
            #expect(receiver.problem == "returned status 500")
            _ = try await namespace.store.set(JSONPath(["a"]), to: 1, timeToLive: nil)
            // The retry follows after 0.1 to 0.5 of ten minutes.
            #expect(await receiver.next(within: 50) == nil)
            receiver.answer(nil)
            let retry = try #require(await receiver.next(within: 300))
            #expect(retry["namespaces"]?[0]?["overrides"] == 1)
            #expect(receiver.problem == nil)
        }
    }

    @Test("new settings cancel the report in flight, and the agent does not report it as a problem")
    func cancellation() async throws {
        try await Receiver.with { receiver in
            receiver.hang()
            await receiver.reporter.use(Self.settings)
            receiver.clock.advance(by: .seconds(60))
            let step = Task { await receiver.reporter.step() }
            await receiver.waitForReport()
            await receiver.reporter.use(nil)
            await step.value
            #expect(await !receiver.reporter.isReporting)
            #expect(receiver.problem == nil)
            #expect(await receiver.next(within: 100) != nil)
            #expect(await receiver.next(within: 7200) == nil)
        }
    }
}

/// A receiver under the control of a test, with a reporter and its clock. The test performs the steps of the reporter.
private final class Receiver: Sendable {
    private struct State {
        var reports: [JSONValue] = []
        var taken = 0
        var answer: UpstreamError?
        var hangs = false
        var problem: String?
    }

    /// The state has a class of its own, because the closures of the reporter exist before the receiver does.
    private final class SharedState: Sendable {
        let value = Mutex(State())
    }

    let context: ServerContext
    let clock = ManualClock()
    let reporter: Reporter
    private let acknowledgements = AcknowledgementRegistry()
    private let state = SharedState()
    private let arrivals: AsyncStream<Void>

    private init(_ context: ServerContext) {
        self.context = context
        let (arrivals, arrival) = AsyncStream.makeStream(of: Void.self)
        self.arrivals = arrivals
        reporter = Reporter(
            Reporter.Environment(
                namespaces: context.namespaces, acknowledgements: acknowledgements, hostIdentity: "machine",
                host: { ReportedHost(name: "kiosk-7", id: "0123456789abcdef0123456789abcdef") }, version: "1.2.3",
                send: { [state] _, body in
                    let hangs = state.value.withLock { state in
                        state.reports.append((try? JSONValue(parsing: body)) ?? .null)
                        return state.hangs
                    }
                    arrival.yield()
                    // The sleep ends when the report is cancelled.
                    if hangs { try? await Task.sleep(for: .seconds(86_400)) }
                    return state.value.withLock { $0.answer }
                },
                note: { [state] problem in state.value.withLock { $0.problem = problem } }, clock: clock,
                wallClock: WallClock { 1_700_000_000_000 },
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }),
            generator: SeededGenerator(seed: 1))
    }

    static func with(_ body: (Receiver) async throws -> Void) async throws {
        let receiver = Receiver(try await ConnectionFixture.serverContext())
        do {
            try await body(receiver)
        } catch {
            await receiver.reporter.stop()
            throw error
        }
        await receiver.reporter.stop()
    }

    var problem: String? { state.value.withLock { $0.problem } }

    /// Sets the result of the next reports; nil for success.
    func answer(_ error: UpstreamError?) { state.value.withLock { $0.answer = error } }

    /// Lets the next reports last until they are cancelled.
    func hang() { state.value.withLock { $0.hangs = true } }

    func acknowledge(_ revision: Int, by id: Int, accepted: Bool) {
        acknowledgements.note(
            AgentClients.Acknowledgement(
                namespace: "default", revision: revision, accepted: accepted, reason: accepted ? nil : "no",
                at: Timestamp(milliseconds: 0)),
            by: id, PeerCredentials(descriptor: -1))
    }

    /// Performs a step each second until another report arrives; nil if none arrives in time.
    func next(within seconds: Int) async -> JSONValue? {
        for _ in 0...seconds {
            await reporter.step()
            let report = state.value.withLock { state -> JSONValue? in
                guard state.taken < state.reports.count else { return nil }
                state.taken += 1
                return state.reports[state.taken - 1]
            }
            if let report { return report }
            clock.advance(by: .seconds(1))
        }
        return nil
    }

    /// Performs the steps for which changes wake the reporter, until a report is due within 100 s.
    func waitForPlannedReport() async {
        let elapsed = clock.now.offset
        for await _ in reporter.wakeUps {
            reporter.changes.take()
            await reporter.step()
            if let due = await reporter.due, due < elapsed + .seconds(100) { return }
        }
    }

    func waitForReport() async { for await _ in arrivals { return } }
}
