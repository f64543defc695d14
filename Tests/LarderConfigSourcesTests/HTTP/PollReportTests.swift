import ConfigTestSupport
import LarderPlatform
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources

@Suite("Reports in polls", .timeLimit(.minutes(15)))
struct PollReportTests {
    private static let host = "0123456789abcdef0123456789abcdef"

    private func fields(_ report: PollReport) -> [String: String] {
        Dictionary(uniqueKeysWithValues: report.fields.map { ($0.name, $0.value) })
    }

    @Test("the fields are a String and a Dictionary with a Token and Display Strings")
    func form() {
        let report = PollReport(hostID: Self.host, state: "stale", version: "2026-11", rejected: "é \"100%\"\n")
        #expect(
            fields(report) == [
                "Larder-Host": "\"\(Self.host)\"",
                "Larder-Status": "state=stale, version=%\"2026-11\", rejected=%\"%c3%a9 %22100%25%22%0a\"",
            ])
    }

    @Test("without a machine ID, a version and a rejected document, only the state is reported")
    func short() {
        let report = PollReport(hostID: nil, state: "initializing", version: nil, rejected: nil)
        #expect(fields(report) == ["Larder-Status": "state=initializing"])
    }

    @Test("a field has at most 512 bytes and no incomplete character", arguments: ["a", "é", "\u{1f600}", "\u{0}"])
    func limit(_ character: String) throws {
        let text = String(repeating: character, count: 10_000)
        let report = PollReport(hostID: Self.host, state: "initializing", version: text, rejected: text)
        let status = try #require(fields(report)["Larder-Status"])
        #expect(status.utf8.count <= 512)
        #expect(status.hasSuffix("%e2%80%a6\""))
        let whole = PollReport(hostID: nil, state: "x", version: character, rejected: nil)
        let encoded = try #require(fields(whole)["Larder-Status"]).dropFirst("state=x, version=%\"".count).dropLast()
        let cut = status.dropFirst("state=initializing, version=%\"".count).prefix { $0 != "\"" }
            .dropLast("%e2%80%a6".count)
        #expect(cut.utf8.count % encoded.utf8.count == 0)
    }

    @Test("polls have the fields, but requests to the target of a redirect do not, even at the same origin")
    func redirect() async throws {
        let origin = try RawOrigin.listening { number, _ in
            number == 0
                ? [.send("HTTP/1.1 307 X\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")]
                : [.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")]
        }
        defer { origin.stop() }
        let requests = try await poll(origin, reportsToSource: true)
        #expect(requests.count == 2)
        #expect(requests.first?["larder-host"] == "\"\(Self.host)\"")
        #expect(requests.first?["larder-status"] == "state=fresh, version=%\"1\"")
        #expect(requests.last?["larder-host"] == nil)
        #expect(requests.last?["larder-status"] == nil)
    }

    @Test("without the setting, polls do not have the fields")
    func off() async throws {
        let origin = try RawOrigin.listening { _, _ in [.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")] }
        defer { origin.stop() }
        let requests = try await poll(origin, reportsToSource: false)
        #expect(requests.count == 1)
        #expect(requests.first?["larder-host"] == nil)
    }

    @Test("the request for a stream and the polls of its pollUrl have the fields")
    func stream() async throws {
        let script: RawOrigin.Script = { _, text in
            text.hasPrefix("GET /config.json ")
                ? [.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"v\":1}")]
                : [.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: connected\n\n")]
        }
        try await RawOrigin.serve(script) { origin in
            let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
            var configuration = SSESourceSettings(url: origin.url)
            configuration.pollURL = origin.url + "config.json"
            configuration.reportsToSource = true
            let source = SSESource(
                configuration: configuration,
                plan: ReconnectPlan(window: .seconds(30), firstFetchWindow: .seconds(2), seed: "a"), fetcher: fetcher,
                blocking: BlockingThreadPool(SharedThreads.pool), clock: ManualClock(),
                generator: SeededGenerator(seed: 1)
            ) { PollReport(hostID: Self.host, state: "fresh", version: "1", rejected: nil) }
            let documents = try #require(source.documents(after: .zero) { nil })
            for await delivery in documents {
                _ = try delivery.result.get()
                break
            }
            let requests = origin.requests.map(RawOrigin.Request.init)
            #expect(Set(requests.map { $0[":path"] }) == ["/", "/config.json"])
            #expect(requests.allSatisfy { $0["larder-status"] == "state=fresh, version=%\"1\"" })
            await fetcher.shutdown()
        }
    }

    private func poll(_ origin: RawOrigin, reportsToSource: Bool) async throws -> [RawOrigin.Request] {
        let fetcher = HTTPFetcher(configuration: .init(version: "1.2.3", connectTimeout: .seconds(300)))
        var configuration = HTTPSourceSettings(url: origin.url)
        configuration.timeout = .seconds(300)
        configuration.reportsToSource = reportsToSource
        let source = HTTPSource(
            fetcher: fetcher, configuration: configuration, blocking: BlockingThreadPool(SharedThreads.pool)
        ) { PollReport(hostID: Self.host, state: "fresh", version: "1", rejected: nil) }
        _ = try? await source.fetch(ifChangedFrom: nil, reason: .requested)
        await fetcher.shutdown()
        return origin.requests.map(RawOrigin.Request.init)
    }
}
