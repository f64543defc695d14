import ConfigTestSupport
import LarderJSON
import LarderPlatform
import LarderUpstream
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources

@Suite("Long polls of an HTTP source", .timeLimit(.minutes(5)))
struct HTTPLongPollTests {
    /// Fetches a document, and then fetches again for a reason. The origin responds to the second request with these
    /// steps.
    private func second(
        _ reason: FetchReason, _ steps: RawOrigin.Answer, body: String? = nil
    ) async throws -> Result<SourceResponse, ConfigError> {
        let first: RawOrigin.Answer = [.send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}")]
        let origin = try RawOrigin.listening { number, _ in number == 0 ? first : steps }
        defer { origin.stop() }
        let fetcher = HTTPFetcher(configuration: .init(version: "1.2.3", connectTimeout: .seconds(300)))
        var configuration = HTTPSourceSettings(url: origin.url, body: body.map { Array($0.utf8) })
        configuration.timeout = .seconds(300)
        configuration.longPoll = .init(waitSeconds: 60)
        let source = HTTPSource(
            fetcher: fetcher, configuration: configuration, blocking: BlockingThreadPool(SharedThreads.pool))
        _ = try? await source.fetch(ifChangedFrom: nil, reason: .requested)
        let result: Result<SourceResponse, ConfigError>
        do throws(ConfigError) {
            result = .success(try await source.fetch(ifChangedFrom: nil, reason: reason))
        } catch {
            result = .failure(error)
        }
        await fetcher.shutdown()
        return result
    }

    private static func status(_ line: String, _ body: String) -> RawOrigin.Answer {
        [.send("HTTP/1.1 \(line)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")]
    }

    private static let ends: [(String, RawOrigin.Answer)] = [
        ("408", status("408 Request Timeout", "")), ("504", status("504 Gateway Timeout", "<html>Time-out</html>")),
        ("a closed connection", [.close]), ("a reset connection", [.reset]),
    ]

    @Test(
        "a long poll that a load balancer ends is neither a failure nor a confirmation of the document",
        arguments: Self.ends, [nil, #"{"query":"{ a }"}"#])
    func waitEnded(_ end: (name: String, answer: RawOrigin.Answer), _ body: String?) async throws {
        let result = try await second(.longPoll, end.answer, body: body)
        guard case .success(.waitEnded) = result else { return #expect(Bool(false), "\(end.name): \(result)") }
    }

    @Test("a poll that gets such a response fails, and so does a long poll that gets another error", arguments: [0, 1])
    func failure(_ number: Int) async throws {
        let cases: [(FetchReason, RawOrigin.Answer)] = [
            (.requested, Self.status("504 Gateway Timeout", "")),
            (.longPoll, Self.status("503 Service Unavailable", "")),
        ]
        let result = try await second(cases[number].0, cases[number].1)
        #expect(throws: ConfigError.self) { try result.get() }
    }
}
