import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Certificates of image origins")
    struct ImageCertificateTests {
        private static func server(_ home: AgentHome, _ lines: String = "") throws -> Nginx {
            let nginx = try Nginx(lines, directory: home.directory, tls: true) { directory in
                let certificates = Certificates(directory: directory)
                try certificates.makeAuthority("ours")
                try certificates.make("server", by: "ours")
                try certificates.make("client", by: "ours")
            }
            let image = TestImage(.png, seed: 1, size: 20_000)
            try Data(image.bytes).write(to: URL(fileURLWithPath: "\(home.directory)/www/a.png"))
            return nginx
        }

        @Test("the agent trusts the configured authority of an origin, and of no other origin")
        func authority() throws {
            try AgentHome.with { home in
                let nginx = try Self.server(home)
                // The redirect leads to another origin, for which the authorities of the system are trusted.
                let redirecting = try Nginx(
                    "location /r { return 302 \(nginx.url("a.png")); }", directory: home.directory + "/second",
                    tls: true
                ) { directory in
                    for name in ["server.pem", "server.key"] {
                        try FileManager.default.copyItem(
                            atPath: "\(home.directory)/\(name)", toPath: "\(directory)/\(name)")
                    }
                }
                let origin = redirecting.url("")
                try home.write(settings: AgentHome.imageSettings("failures: { networkSeconds: 0 }"))
                let agent = try home.start()
                let client = try agent.connect()
                #expect(try client.imageRefusal(nginx.url("a.png")).detail.contains("TLS"))
                try home.write(
                    settings: AgentHome.imageSettings(
                        "origins: { '\(origin.dropLast())': { certificateAuthority: '@/ours.pem' } }, "
                            + "failures: { networkSeconds: 0 }"))
                try agent.reload()
                #expect(try client.imageRefusal(redirecting.url("r")).detail.contains("TLS"))
                try home.write(
                    settings: AgentHome.imageSettings(
                        "origins: { '\(nginx.url("").dropLast())': { certificateAuthority: '@/ours.pem' } }, "
                            + "failures: { networkSeconds: 0 }"))
                try agent.reload()
                #expect(try client.image(nginx.url("a.png"))["bytes"] == 20_000)
            }
        }

        @Test("images that an origin sends only for a client certificate are for the permitted users")
        func clientCertificate() throws {
            try AgentHome.with { home in
                let nginx = try Self.server(home, "ssl_client_certificate ours.pem; ssl_verify_client on;")
                func settings(_ more: String) -> String {
                    AgentHome.imageSettings(
                        "origins: { '\(nginx.url("").dropLast())': { certificateAuthority: '@/ours.pem', \(more) } }, "
                            + "failures: { rejectedSeconds: 0, serverErrorSeconds: 0, notFoundSeconds: 0 }")
                }
                try home.write(settings: settings(""))
                let agent = try home.start()
                let client = try agent.connect()
                #expect(try client.imageRefusal(nginx.url("a.png")).detail.contains("400"))
                try home.write(settings: settings("certificate: '@/client.pem', privateKey: '@/client.key'"))
                try agent.reload()
                #expect(try client.call("agent.stats")["images"]?["certificateExpiresAt"] == nil, "no request yet")
                #expect(try client.image(nginx.url("a.png"))["bytes"] == 20_000)
                // The certificates of the test expire in two days.
                #expect(try client.call("agent.metrics")["images"]?["certificateExpiresAt"]?.string != nil)
                let check = try home.larder("status", "--check")
                #expect(check.status == 12)
                #expect(check.text.contains("a certificate for an origin of images expires in 1 d"), "\(check.text)")
                let file = try require(try client.call("agent.stats")["images"]?["certificateFile"]?.string, "file")
                #expect(file.hasSuffix(".pem") && check.text.contains(": \(file)"), "\(check.text)")
                // Without the certificate, the cached image is not found.
                try home.write(settings: settings(""))
                try agent.reload()
                #expect(try client.imageRefusal(nginx.url("a.png"), ["policy": "cacheOnly"]).name == "notFound")
            }
        }
    }
}
