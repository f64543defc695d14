import Testing

@testable import larder_bench

@Suite("Framing of replies")
struct ReplyFramingTests {
    private func frame(_ framing: ReplyFraming, _ text: String, scanned: Int = 0) -> ReplyFraming.Frame {
        Array(text.utf8).withUnsafeBytes { framing.firstFrame(in: $0, scanned: scanned) }
    }

    @Test("a line frame ends at the first LF")
    func lineEndsWithLineFeed() {
        #expect(frame(.line, "{}\n{\"a\":1}\n") == .complete(3))
        #expect(frame(.line, "\n") == .complete(1))
    }

    @Test("the bytes of an incomplete line are not scanned again")
    func lineBeginningIsScannedOnce() {
        #expect(frame(.line, "{\"a\":") == .partial(scanned: 5))
        #expect(frame(.line, "{\"a\":1}\n", scanned: 5) == .complete(8))
    }

    @Test(
        "every kind of RESP2 value ends at its declared length",
        arguments: [
            "+OK\r\n", "-ERR no\r\n", ":1000\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$0\r\n\r\n", "$4\r\na\r\nb\r\n",
            "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", "*2\r\n*1\r\n:1\r\n$1\r\nx\r\n",
        ])
    func respValueEnds(text: String) {
        #expect(frame(.resp, text) == .complete(text.utf8.count))
        #expect(frame(.resp, text + "+NEXT\r\n") == .complete(text.utf8.count))
    }

    @Test("every proper prefix of a RESP2 value is a partial frame")
    func respBeginningIsPartial() {
        let bytes = Array("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n".utf8)
        for length in 1..<bytes.count {
            let frame = bytes[..<length].withUnsafeBytes { ReplyFraming.resp.firstFrame(in: $0) }
            #expect(frame == .partial(scanned: 0), "\(length) bytes")
        }
    }

    @Test(
        "an invalid RESP2 value is a malformed frame",
        arguments: ["hello\r\n", "$x\r\n", "$\r\n", "$99999999999999999999\r\n", "*1 \r\n", "$\n"])
    func invalidIsMalformed(text: String) {
        #expect(frame(.resp, text) == .malformed)
    }

    @Test("an HTTP response is one frame; the head and each chunk of a stream are separate frames")
    func http() {
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nDate: now\r\n\r\n{\"\"}"
        #expect(frame(.http, response) == .complete(response.utf8.count))
        #expect(frame(.http, response + "HTTP/1.1") == .complete(response.utf8.count))
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        let chunk = "1a\r\n" + String(repeating: "x", count: 26) + "\r\n"
        #expect(frame(.http, head + chunk) == .complete(head.utf8.count))
        #expect(frame(.http, chunk + chunk) == .complete(chunk.utf8.count))
        for whole in [response, head, chunk] {
            for length in 1..<whole.utf8.count {
                #expect(
                    frame(.http, String(decoding: whole.utf8.prefix(length), as: UTF8.self)) == .partial(scanned: 0),
                    "\(length) of \(whole)")
            }
        }
        #expect(frame(.http, "HTTP/1.1 200 OK\r\n\r\n") == .malformed)
        #expect(frame(.http, "what is this\r\n") == .malformed)
    }
}
