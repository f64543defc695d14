import LarderUpstream
import TestSupport
import Testing

@Suite("Responses without a usable document", .timeLimit(.minutes(15)))
struct BadAnswerTests {
    @Test("a body that ends before its declared length is an error, never a short document")
    func shortBody() async throws {
        let error = try await failure { _, _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":1}"), .close]
        }
        #expect(error.code == .truncated)
        #expect(error.message.contains("7 bytes"))
    }

    @Test("a connection reset in the middle of the body is an error")
    func resetInBody() async throws {
        let error = try await failure { _, _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":1}"), .reset]
        }
        #expect(error.code == .truncated || error.code == .connectionClosed)
    }

    @Test("a chunked body without its last chunk is an error")
    func missingLastChunk() async throws {
        let error = try await failure { _, _ in
            [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n"), .close]
        }
        #expect(error.code == .truncated)
    }

    @Test("a chunk whose size is not a number is an error")
    func brokenChunk() async throws {
        let error = try await failure { _, _ in
            [.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\nzz\r\n"), .close]
        }
        #expect(error.code == .malformedAnswer || error.code == .truncated)
    }

    @Test("two different Content-Length fields are an error")
    func twoLengths() async throws {
        let error = try await failure { _, _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 7\r\n\r\n{\"a\":1}")]
        }
        #expect(error.code == .malformedAnswer)
    }

    @Test("bytes after the declared length never become part of the document")
    func longBody() async throws {
        let body = try await document { _, _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}{\"b\":2}")]
        }
        #expect(body.body == Array("{\"a\":1}".utf8))
    }

    @Test("a response that is not HTTP is an error")
    func notHTTP() async throws {
        let error = try await failure { _, _ in [.send("SSH-2.0-OpenSSH_9.2p1 Debian\r\n")] }
        #expect(error.code == .malformedAnswer)
    }

    @Test("a connection that closes before the head of the response is an error", arguments: ["", "HTTP/1.1 200 O"])
    func closedEarly(_ sent: String) async throws {
        let error = try await failure { _, _ in [.send(sent), .close] }
        #expect(error.code == .connectionClosed)
    }

    @Test(
        "an empty response is an error, not an empty document",
        arguments: [
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ])
    func empty(_ answer: String) async throws {
        let error = try await failure { _, _ in [.send(answer)] }
        #expect(error.code == .empty)
    }

    @Test("a declared length over the limit is rejected before the body arrives")
    func declaredTooLarge() async throws {
        // No body is sent, so only the declared length can cause the error.
        let error = try await failure({ $0.maximumBytes = 10 }) { _, _ in
            [.send("HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n")]
        }
        #expect(error.code == .tooLarge)
        #expect(!error.isRetryable)
        #expect(error.message.contains("sends 11 bytes, more than the limit of 10 bytes; raise limits.documentBytes"))
    }

    @Test("an endless body is rejected as soon as it exceeds the limit")
    func streamedTooLarge() async throws {
        let error = try await failure({ $0.maximumBytes = 10 }) { _, _ in
            [.send("HTTP/1.1 200 OK\r\n\r\n"), .trickle]
        }
        #expect(error.code == .tooLarge)
    }

    @Test("a body of exactly the maximum size is accepted")
    func exactlyTheLimit() async throws {
        let body = try await document({ $0.maximumBytes = 7 }) { _, _ in [.send(ok("{\"a\":1}"))] }
        #expect(body.body.count == 7)
    }

    @Test(
        "an error status is reported together with whether the request can be retried",
        arguments: [400, 401, 404, 410, 429, 500, 501, 503])
    func statuses(_ status: Int) async throws {
        let error = try await failure { _, _ in
            [.send("HTTP/1.1 \(status) X\r\nContent-Length: 2\r\n\r\n{}")]
        }
        #expect(error.code == .status)
        #expect(error.status == status)
        #expect(error.isRetryable == [429, 500, 503].contains(status))
        #expect(error.message.contains("\(status)"))
    }

    @Test("a 206 response to a request without a range is an error")
    func partial() async throws {
        let error = try await failure { _, _ in [.send("HTTP/1.1 206 X\r\nContent-Length: 2\r\n\r\n{}")] }
        #expect(error.code == .status)
    }

    @Test("Retry-After can be a number of seconds, or a date, from which the Date of the response is subtracted")
    func retryAfter() async throws {
        let seconds = try await failure { _, _ in
            [.send("HTTP/1.1 503 X\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n")]
        }
        #expect(seconds.retryAfter == .seconds(120))
        let date = try await failure { _, _ in
            [
                .send(
                    "HTTP/1.1 429 X\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                        + "Retry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\nContent-Length: 0\r\n\r\n")
            ]
        }
        #expect(date.retryAfter == .seconds(60))
    }

    @Test("a content coding that was not requested is rejected")
    func unknownCoding() async throws {
        let error = try await failure { _, _ in [.send(ok("xyz", "Content-Encoding: br\r\n"))] }
        #expect(error.code == .unsupportedEncoding)
    }
}
