import LarderHTTPSemantics
import TestSupport
import Testing

@testable import LarderImages

@Suite("Conditional image downloads", .timeLimit(.minutes(10)))
struct ConditionalDownloadTests {
    private static let image = picture(1, size: 5000)

    @Test("after a 304 with another Last-Modified and no strong tag, the request is repeated once without conditions")
    func otherDate() async throws {
        let script: RawOrigin.Script = { number, _ in
            number == 0
                ? [
                    .head(
                        "HTTP/1.1 304 Not Modified", "ETag: W/\"a\"", "Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT")
                ] : [.ok(Self.image)]
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                let fields = [("ETag", "W/\"a\""), ("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")]
                let cached = StoredResponse(
                    status: 200, fields: ResponseFields(fields.map { (name: $0.0, value: $0.1) }), url: server.url,
                    request: [], requestTime: 1, responseTime: 1)
                let outcome = try await fixture.download(server.url, cached: cached).run()
                guard case .published(let blob, _, _) = outcome else {
                    Issue.record("\(outcome)")
                    return
                }
                #expect(try await fixture.disk.contents(blob.digest) == Self.image)
                #expect(server.requests.count == 2)
                #expect(server.requests.last?.contains("If-") == false)
            }
        }
    }
}
