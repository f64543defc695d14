import LarderUpstream
import TestSupport
import Testing

@Suite("Requests that send a report", .timeLimit(.minutes(5)))
struct ReportRequestTests {
    private static let body = Array(#"{"host":"kiosk-7"}"#.utf8)

    /// Sends a report to a receiver.
    /// - Returns: the error, nil if the report was accepted; and the requests
    private func send(
        _ timeouts: FetchTimeouts = .long, script: @escaping RawOrigin.Script
    ) async throws -> (error: UpstreamError?, requests: [RawOrigin.Request]) {
        let receiver = try RawOrigin.listening(script: script)
        defer { receiver.stop() }
        let error: UpstreamError? = try await withFetcher { fetcher in
            do throws(UpstreamError) {
                try await fetcher.send(report: FetchRequest(url: receiver.url, body: Self.body, timeouts: timeouts))
                return nil
            } catch {
                return error
            }
        }
        return (error, receiver.requests.map(RawOrigin.Request.init))
    }

    @Test(
        "any success is accepted, with or without a body",
        arguments: ["200 OK", "201 Created", "202 X", "204 No Content"])
    func success(_ status: String) async throws {
        let (error, requests) = try await send { _, _ in [.send("HTTP/1.1 \(status)\r\nContent-Length: 0\r\n\r\n")] }
        #expect(error == nil)
        #expect(requests.map { $0[":method"] } == ["POST"])
        #expect(requests.first?["content-type"] == "application/json")
        #expect(requests.first?[":body"] == String(decoding: Self.body, as: UTF8.self))
    }

    @Test("an endless body of the response is not read")
    func endlessBody() async throws {
        let (error, _) = try await send { _, _ in [.send("HTTP/1.1 200 OK\r\n\r\n"), .trickle] }
        #expect(error == nil)
    }

    @Test("a redirect is an error, and is not followed", arguments: [301, 302, 303, 307, 308])
    func redirect(_ status: Int) async throws {
        let (error, requests) = try await send { _, _ in
            [.send("HTTP/1.1 \(status) X\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")]
        }
        #expect(error?.code == (status < 307 ? .invalidRedirect : .tooManyRedirects))
        #expect(error?.message.contains("use the final address") == true, "\(String(describing: error))")
        #expect(requests.count == 1)
    }

    @Test("another status is an error, with the time of Retry-After")
    func refusal() async throws {
        let (error, _) = try await send { _, _ in
            [.send("HTTP/1.1 503 X\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n")]
        }
        #expect(error?.code == .status && error?.status == 503)
        #expect(error?.retryAfter == .seconds(120))
    }

    @Test("a receiver that does not respond is an error that names no document")
    func silence() async throws {
        let timeouts = FetchTimeouts(idle: .milliseconds(50), whole: .seconds(600))
        let (error, _) = try await send(timeouts) { _, _ in .hang }
        #expect(error?.code == .timeout)
        #expect(error?.message.contains("document") == false, "\(String(describing: error))")
    }
}
