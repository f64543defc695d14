import NIOPosix
import TestSupport
import Testing

@testable import LarderUpstream

@Suite("TLS failure texts")
struct TLSFailureTests {
    private static func sslError(_ reasons: String...) -> String {
        let errors = reasons.map { "Error: 125 error:1000007d:SSL routines:OPENSSL_internal:\($0) at /b/tls.cc:320" }
        return "handshakeFailed(NIOSSL.BoringSSLError.sslError([\(errors.joined(separator: ", "))]))"
    }

    @Test(
        "the text for a known reason of a TLS failure says what to do",
        arguments: [
            // Images have no setting for an authority.
            ("CERTIFICATE_VERIFY_FAILED", "restart the agent, name that of a source in certificateAuthority, or"),
            ("TLSV1_ALERT_CERTIFICATE_REQUIRED", "set certificate and privateKey"),
            ("SSLV3_ALERT_BAD_CERTIFICATE", "check certificate and privateKey"),
            ("WRONG_VERSION_NUMBER", "does not use TLS"), ("NO_SHARED_CIPHER", "NO_SHARED_CIPHER; check"),
        ])
    func known(_ reason: String, _ advice: String) {
        let text = TLSFailure(description: Self.sslError(reason)).text
        #expect(text.contains(advice), "\(text)")
        #expect(!text.contains("/b/"), "\(text)")
        #expect(!text.contains("OPENSSL"), "\(text)")
    }

    @Test("certificates that are expired or not yet valid are reported, the server's own certificate first")
    func validity() {
        func problem(_ validities: (Int, Int)...) -> String? {
            ServerCertificates(validities: validities.map { ServerCertificates.Validity(begin: $0.0, end: $0.1) })
                .problem(at: 1_000_000_000)
        }
        #expect(problem() == nil)
        #expect(problem((0, 1_000_000_000), (1_000_000_000, 2_000_000_000)) == nil)
        #expect(
            problem((0, 999_999_999))?.hasPrefix("its certificate expired on 2001-09-09 01:46:39 UTC; renew") == true)
        #expect(
            problem((1_000_000_001, 2_000_000_000))?.contains("is not valid before 2001-09-09 01:46:41 UTC") == true)
        #expect(
            problem((0, 2_000_000_000), (0, 1))?.hasPrefix("an intermediate certificate expired") == true)
    }

    @Test("cancelling the task ends the handshake that reads the certificates of a server")
    func cancelledHandshake() async throws {
        try await RawOrigin.serve({ _, _ in .hang }) { server in
            let url = try FetchURL(server.url)
            let task = Task {
                await ServerCertificates.read(
                    from: url, at: "127.0.0.1", on: MultiThreadedEventLoopGroup.singleton, timeout: .seconds(3600))
            }
            task.cancel()
            #expect(await task.value == nil)
            for await event in server.events where event == .disconnected { break }
        }
    }

    @Test("if a TLS failure has several reasons, a reason with advice is reported")
    func several() {
        let text = TLSFailure(description: Self.sslError("DECODE_ERROR", "CERTIFICATE_VERIFY_FAILED")).text
        #expect(text.contains("certificateAuthority"))
        #expect(TLSFailure(description: Self.sslError("A", "B_2")).text.hasPrefix("A, B_2; "))
    }

    @Test("on a host without certificate authorities, the text says to install ca-certificates")
    func noAuthorities() {
        let text = TLSFailure(description: "NIOSSL.BoringSSLError.unknownError([])").text
        #expect(text.contains("install ca-certificates"))
    }

    @Test("if the server closes the connection during the handshake, the advice is to try it without TLS")
    func closed() {
        let text = TLSFailure(
            description: "handshakeFailed(NIOSSL.BoringSSLError.sslError([Error: EOF during handshake]))"
        ).text
        #expect(text.hasPrefix("it closed the connection during the TLS handshake; it may not use TLS: "))
    }

    @Test("a certificate for another name is reported; unknown descriptions are kept without source locations")
    func others() {
        let name = "NIOSSLExtraError.failedToValidateHostname: Couldn't find h in certificate from peer"
        #expect(TLSFailure(description: name).text.hasPrefix("its certificate is for another name; "))
        #expect(TLSFailure(description: "no words at /b/x.cc:3").text.hasPrefix("no words; check"))
        #expect(TLSFailure(description: "uncleanShutdown").text.hasPrefix("uncleanShutdown; check"))
    }
}
