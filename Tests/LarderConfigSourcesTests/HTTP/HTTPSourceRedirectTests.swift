import ConfigTestSupport
import LarderHTTPSemantics
import LarderJSON
import LarderPlatform
import LarderUpstream
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources

@Suite("HTTP source behind a redirect", .timeLimit(.minutes(5)))
struct HTTPSourceRedirectTests {
    /// Responds with 304 to each conditional request, as an origin does whose documents have equal tags, or dates
    /// before that of the newest document.
    private static func document(_ body: String, _ field: String, _ request: String) -> RawOrigin.Answer {
        let isConditional = request.contains("If-None-Match") || request.contains("If-Modified-Since")
        return isConditional
            ? [.send("HTTP/1.1 304 Not Modified\r\n\(field)\r\n\r\n")]
            : [.send("HTTP/1.1 200 OK\r\n\(field)\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")]
    }

    @Test(
        "after the redirect changes, the document of the new target is returned",
        arguments: ["ETag: \"1\"", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"], ["/old.json", nil])
    func rollback(_ field: String, _ then: String?) async throws {
        let target = Mutex<String?>("/new.json")
        let origin = try RawOrigin.listening { _, request in
            let path = request.split(separator: " ")[1]
            if path == "/latest.json", let target = target.withLock({ $0 }) {
                return [.send("HTTP/1.1 302 Found\r\nLocation: \(target)\r\nContent-Length: 0\r\n\r\n")]
            }
            return Self.document(path == "/new.json" ? #"{"v":2}"# : #"{"v":1}"#, field, request)
        }
        defer { origin.stop() }
        let fetcher = HTTPFetcher(configuration: .init(version: "1.2.3", connectTimeout: .seconds(300)))
        var configuration = HTTPSourceSettings(url: origin.url + "latest.json")
        configuration.timeout = .seconds(300)
        let source = HTTPSource(
            fetcher: fetcher, configuration: configuration, blocking: BlockingThreadPool(SharedThreads.pool))
        func fetch(_ validator: Validator?) async -> Result<SourceResponse, ConfigError> {
            do throws(ConfigError) {
                return .success(try await source.fetch(ifChangedFrom: validator, reason: .requested))
            } catch {
                return .failure(error)
            }
        }
        func document(_ result: Result<SourceResponse, ConfigError>) throws -> SourceDocument? {
            guard case .document(let document) = try result.get() else { return nil }
            return document
        }
        let first = await fetch(nil)
        let unchanged = await fetch(try document(first)?.validator)
        target.withLock { $0 = then }
        let second = await fetch(try document(first)?.validator)
        await fetcher.shutdown()
        #expect(try document(first)?.value["v"] == 2)
        guard case .notModified = try unchanged.get() else { return #expect(Bool(false), "\(unchanged)") }
        #expect(try document(second)?.value["v"] == 1)
    }
}
