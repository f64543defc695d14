import NIOHTTP2
import Testing

@testable import LarderUpstream

@Suite("Errors of HTTP/2")
struct HTTP2ErrorTests {
    @Test("a body of another length than declared is reported by its cause, without a source file")
    func contentLength() throws {
        let url = try FetchURL("https://img.example/a.png")
        let stream = NIOHTTP2Errors.streamError(streamID: 1, baseError: NIOHTTP2Errors.contentLengthViolated())
        for error in [stream, NIOHTTP2Errors.contentLengthViolated()] as [any Error] {
            let result = UpstreamError(within: error, from: url, received: 5)
            #expect(result.code == .truncated)
            #expect(result.message.contains("Content-Length") && !result.message.contains(".swift"))
        }
    }

    @Test("a stream that is closed before the response counts as a closed connection, unless it is closed for an error")
    func closedStream() throws {
        let url = try FetchURL("https://img.example/a.png")
        for (code, expected) in [
            (HTTP2ErrorCode.cancel, UpstreamError.Code.connectionClosed), (.noError, .connectionClosed),
            (.internalError, .truncated),
        ] {
            let closed = NIOHTTP2Errors.streamClosed(streamID: 1, errorCode: code)
            for error in [closed, NIOHTTP2Errors.streamError(streamID: 1, baseError: closed)] as [any Error] {
                #expect(UpstreamError(before: error, from: url).code == expected)
                #expect(UpstreamError(within: error, from: url, received: 5).code == .truncated)
            }
        }
    }

    @Test("no error of HTTP/2 shows a source file")
    func places() throws {
        let url = try FetchURL("https://img.example/a.png")
        for error in [
            NIOHTTP2Errors.streamClosed(streamID: 1, errorCode: .internalError), NIOHTTP2Errors.badClientMagic(),
            NIOHTTP2Errors.streamError(streamID: 3, baseError: NIOHTTP2Errors.missingPreface()),
        ] as [any Error] {
            for result in [
                UpstreamError(within: error, from: url, received: 5), UpstreamError(before: error, from: url),
            ] {
                #expect(!result.message.contains(".swift") && !result.message.contains("NIOHTTP2"), "\(result.message)")
            }
        }
    }
}
