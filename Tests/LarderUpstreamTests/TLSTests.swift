import Foundation
@testable import LarderUpstream
import TestSupport
import Testing

@Suite("TLS", .timeLimit(.minutes(15)))
struct TLSTests {
    private static func pem(_ name: String, of nginx: Nginx) throws -> TLSOptions.PEM {
        let path = "\(nginx.directory)/\(name)"
        return TLSOptions.PEM(path: path, bytes: Array(try Data(contentsOf: URL(filePath: path))))
    }

    /// Starts nginx with a server certificate that the authority `ours` has signed. The directory of nginx also
    /// contains the authority `other`, and a client certificate signed by each authority.
    private static func server(_ lines: String = "") throws -> Nginx {
        let nginx = try Nginx(lines, tls: true, http2: true) { directory in
            let certificates = Certificates(directory: directory)
            for authority in ["ours", "other"] {
                try certificates.makeAuthority(authority)
                try certificates.make("client-of-\(authority)", by: authority)
            }
            try certificates.make("server", by: "ours")
        }
        try nginx.write("{\"a\":1}", to: "c.json")
        return nginx
    }

    @Test("configured certificate authorities replace those of the system")
    func authority() async throws {
        let nginx = try Self.server()
        try await withFetcher { fetcher in
            var request = FetchRequest(url: nginx.url("c.json"), timeouts: .long)
            request.tls = try TLSOptions(
                authorities: Self.pem("ours.pem", of: nginx), certificate: nil, privateKey: nil)
            #expect(try await fetcher.fetch(request).requireDocument().body == Array("{\"a\":1}".utf8))
            request.tls = try TLSOptions(
                authorities: Self.pem("other.pem", of: nginx), certificate: nil, privateKey: nil)
            let error = await #expect(throws: UpstreamError.self) { try await fetcher.fetch(request) }
            #expect(error?.code == .tlsFailed)
        }
    }

    @Test("the client certificate is sent; nginx rejects a request without one or with one of another authority")
    func clientCertificate() async throws {
        let nginx = try Self.server("ssl_client_certificate ours.pem; ssl_verify_client on;")
        try await withFetcher { fetcher in
            var request = FetchRequest(url: nginx.url("c.json"), timeouts: .long)
            for (client, works) in [("client-of-ours", true), ("client-of-other", false), (nil, false)] {
                request.tls = try TLSOptions(
                    authorities: Self.pem("ours.pem", of: nginx),
                    certificate: client.map { try Self.pem("\($0).pem", of: nginx) },
                    privateKey: client.map { try Self.pem("\($0).key", of: nginx) })
                if works {
                    _ = try await fetcher.fetch(request).requireDocument()
                } else {
                    // Without a valid client certificate, nginx still completes the handshake, but responds with status
                    // 400.
                    let error = await #expect(throws: UpstreamError.self) { try await fetcher.fetch(request) }
                    #expect(error?.status == 400)
                }
            }
        }
    }

    @Test("the client certificate is not sent to another origin after a redirect")
    func redirected() async throws {
        let second = try Self.server(
            "ssl_client_certificate ours.pem; ssl_verify_client optional_no_ca;\n"
                + "location = /who { return 200 \"seen $ssl_client_s_dn.\"; }")
        let location = "location = /who { return 307 https://127.0.0.1:\(second.port)/who; }"
        let first = try Nginx(location, tls: true, http2: true) { directory in
            for name in ["server.pem", "server.key"] {
                try FileManager.default.copyItem(
                    atPath: "\(second.directory)/\(name)", toPath: "\(directory)/\(name)")
            }
        }
        try await withFetcher { fetcher in
            let tls = try TLSOptions(
                authorities: Self.pem("ours.pem", of: second),
                certificate: Self.pem("client-of-ours.pem", of: second),
                privateKey: Self.pem("client-of-ours.key", of: second))
            for (server, expected) in [(second, "seen CN=client-of-ours."), (first, "seen .")] {
                let request = FetchRequest(url: server.url("who"), tls: tls, timeouts: .long)
                let body = try await fetcher.fetch(request).requireDocument().body
                #expect(String(decoding: body, as: UTF8.self) == expected)
            }
        }
    }

    @Test("an expired server certificate is reported with the date of expiry", arguments: [-1, 2])
    func expired(days: Int) async throws {
        let nginx = try Nginx("", tls: true, http2: true) { directory in
            let certificates = Certificates(directory: directory)
            for authority in ["ours", "other"] { try certificates.makeAuthority(authority) }
            try certificates.make("server", by: "ours", days: days)
        }
        try await withFetcher { fetcher in
            var request = FetchRequest(url: nginx.url("c.json"), timeouts: .long)
            for authority in days < 0 ? ["ours", "other"] : ["other"] {
                request.tls = try TLSOptions(
                    authorities: Self.pem("\(authority).pem", of: nginx), certificate: nil, privateKey: nil)
                let error = await #expect(throws: UpstreamError.self) { try await fetcher.fetch(request) }
                #expect(error?.code == .tlsFailed)
                let isNamed = error?.message.contains("failed: its certificate expired on 20") == true
                #expect(isNamed == (days < 0), "\(error?.message ?? "")")
                #expect(error?.originFailure?.contains("expired on") == (days < 0))
            }
        }
    }

    @Test("a private key that does not match the certificate is rejected, and both files are named")
    func otherKey() throws {
        let nginx = try Self.server()
        let error = #expect(throws: UpstreamError.self) {
            try TLSOptions(
                authorities: nil, certificate: Self.pem("client-of-ours.pem", of: nginx),
                privateKey: Self.pem("client-of-other.key", of: nginx))
        }
        #expect(error?.code == .invalidRequest)
        #expect(
            error?.message.hasPrefix(
                "\(nginx.directory)/client-of-other.key is not the key of the first certificate in "
                    + "\(nginx.directory)/client-of-ours.pem; ") == true)
    }

    @Test("the error for a file that is not PEM names the file and does not contain its contents")
    func garbage() throws {
        let garbage = TLSOptions.PEM(path: "/etc/larder/x.pem", bytes: Array("hunter2".utf8))
        let error = #expect(throws: UpstreamError.self) {
            try TLSOptions(authorities: garbage, certificate: nil, privateKey: nil)
        }
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.hasPrefix("/etc/larder/x.pem does not contain a PEM certificate") == true)
        #expect(error?.message.contains("hunter2") == false)
    }
}
