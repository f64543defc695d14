import Foundation
@testable import LarderUpstream
import TestSupport
import Testing

@Suite("Targets of requests", .timeLimit(.minutes(5)))
struct RequestTargetTests {
    private static let targets = [
        "/img/%B1%B1%CA%AF.jpg", "/a/%FF/b.png?x=1", "/%e4%c3%a4.png?sig=ab%2Bc", "/a%20b%5B1%5D.png", "//a?", "/?%E4",
        "/-._~!$&'()*+,;=:@/?/?:@",
    ]

    @Test(
        "the target of an HTTP/1.1 request has the bytes of the URL, and no header field of the agent's own",
        arguments: targets)
    func http1(_ target: String) async throws {
        let server = try RawOrigin.listening([.send(ok("{}"))])
        let url = String(server.url.dropLast()) + target
        try await withFetcher { fetcher in
            let request = FetchRequest(url: url, timeouts: .long)
            let document = try await fetcher.fetch(request).requireDocument()
            #expect(document.metadata.url == url)
        }
        server.stop()
        let request = try #require(server.requests.first)
        #expect(request.hasPrefix("GET \(target) HTTP/1.1\r\n"))
        #expect(!request.lowercased().contains("larder-"))
    }

    @Test("the target of an HTTP/2 request has the bytes of the URL", arguments: targets)
    func http2(_ target: String) async throws {
        let nginx = try Nginx(
            "location / { return 200 \"$http2 $request_uri $http_larder_request_target\"; }", tls: true, http2: true
        ) { directory in
            try Certificates(directory: directory).makeSelfSigned("server", "localhost", alternative: "DNS:localhost")
        }
        let path = nginx.directory + "/server.pem"
        try await withFetcher { fetcher in
            let request = FetchRequest(
                url: "https://localhost:\(nginx.port)\(target)",
                tls: try TLSOptions(
                    authorities: TLSOptions.PEM(path: path, bytes: Array(try Data(contentsOf: URL(filePath: path)))),
                    certificate: nil, privateKey: nil),
                timeouts: .long)
            let document = try await fetcher.fetch(request).requireDocument()
            #expect(String(decoding: document.body, as: UTF8.self) == "h2 \(target) ")
        }
    }

    @Test("the name of a TLS server has no trailing dot, and Host has the name of the URL")
    func trailingDot() async throws {
        let nginx = try Nginx("location / { return 200 \"$ssl_server_name $http_host\"; }", tls: true) { directory in
            try Certificates(directory: directory).makeSelfSigned("server", "localhost", alternative: "DNS:localhost")
        }
        let path = nginx.directory + "/server.pem"
        let tls = try TLSOptions(
            authorities: TLSOptions.PEM(path: path, bytes: Array(try Data(contentsOf: URL(filePath: path)))),
            certificate: nil, privateKey: nil)
        try await withFetcher { fetcher in
            let url = "https://localhost.:\(nginx.port)/"
            let document = try await fetcher.fetch(FetchRequest(url: url, tls: tls, timeouts: .long)).requireDocument()
            #expect(
                String(decoding: document.body, as: UTF8.self) == "localhost localhost.:\(nginx.port)")
            #expect(document.metadata.url == url)
        }
    }

    @Test("a POST has the bytes of the URL and its body")
    func post() async throws {
        let server = try RawOrigin.listening([.send(ok("{}"))])
        try await withFetcher { fetcher in
            let request = FetchRequest(url: server.url + "%B1", body: Array("{\"a\":1}".utf8), timeouts: .long)
            _ = try await fetcher.fetch(request).requireDocument()
        }
        server.stop()
        let request = try #require(server.requests.first)
        #expect(request.hasPrefix("POST /%B1 HTTP/1.1\r\n") && request.hasSuffix("\r\n\r\n{\"a\":1}"))
    }

    @Test("the target of a redirect has the bytes of its Location")
    func redirect() async throws {
        let answer = try await document { number, request in
            number == 0
                ? [.send("HTTP/1.1 302 X\r\nLocation: /%E4[é].png\r\nContent-Length: 0\r\n\r\n")]
                : [.send(ok(request.hasPrefix("GET /%E4%5B%C3%A9%5D.png HTTP/1.1\r\n") ? "good" : "bad"))]
        }
        #expect(answer.body == Array("good".utf8))
    }

    @Test("a redirect to an address with bytes that are not UTF-8 is an error, and nothing else is requested")
    func latin1() async throws {
        let server = try RawOrigin.listening([
            .send(Array("HTTP/1.1 302 X\r\nLocation: /caf".utf8) + [0xE9] + Array("\r\nContent-Length: 0\r\n\r\n".utf8))
        ])
        let error = try await withFetcher { fetcher in
            try await #require(throws: UpstreamError.self) {
                try await fetcher.fetch(FetchRequest(url: server.url, timeouts: .long))
            }
        }
        server.stop()
        #expect(error.code == .invalidRedirect)
        #expect(server.requests.count == 1)
    }
}
