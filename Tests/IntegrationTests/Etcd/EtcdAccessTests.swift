import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("etcd with authentication and TLS")
    struct EtcdAccessTests {
        private static let access = "user: 'larder', passwordFile: '@/password', timeoutSeconds: 5"

        @Test("the agent authenticates with a password and recovers from a new password and invalidated tokens")
        func password() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/a", "1")
                try gateway.enableAuthentication(user: "larder", password: "hidden-1", prefix: "/c/")
                let root = try gateway.asRoot()

                try home.write("password", "hidden-wrong\n")
                chmod(home.directory + "/password", 0o644)
                let (agent, client) = try home.startFollowing([etcd], Self.access)
                let exposed = try client.refusal("config.refresh")
                #expect(exposed.detail.contains("contains a secret that other users can read"), "\(exposed)")
                chmod(home.directory + "/password", 0o600)
                let wrong = try client.refusal("config.refresh")
                #expect(wrong.name == "upstreamFailed")
                #expect(wrong.detail.contains("authentication failed, invalid user ID or password"), "\(wrong)")
                #expect(wrong.detail.contains("larder"), "\(wrong)")

                try home.writeSecret("password", "hidden-1\n")
                try client.call("config.refresh")
                #expect(try client.event()["value"] == ["a": 1])
                try root.put("/c/a", "2")
                #expect(try client.event()["value"] == ["a": 2])

                // A password change invalidates all tokens of the user. Tokens also expire, and a restart of the server
                // invalidates them.
                try root.call("/v3/auth/user/changepw", ["name": "larder", "password": "hidden-2"])
                #expect(try client.refusal("config.refresh").detail.contains("invalid user ID or password"))
                try home.writeSecret("password", "hidden-2")
                try client.call("config.refresh")
                try retrying { try root.put("/c/a", "3") }
                #expect(try client.event()["value"] == ["a": 3])
                etcd.kill()
                try etcd.start()
                try retrying { try gateway.asRoot().put("/c/a", "4") }
                #expect(try client.event()["value"] == ["a": 4])

                #expect(!(try agent.status().compactText.contains("hidden")))
                #expect(try agent.stop() == .exit(0))
                #expect(!agent.log.contains("hidden"), "\(agent.log)")
            }
        }

        @Test("the error for a user without permission to read the keys says how to grant the permission")
        func denied() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                try EtcdGateway(port: etcd.clientPort)
                    .enableAuthentication(user: "larder", password: "hidden", prefix: "/other/")
                try home.writeSecret("password", "hidden")
                let (_, client) = try home.startFollowing([etcd], Self.access)
                let refusal = try client.refusal("config.refresh")
                #expect(refusal.detail.contains("permission denied"), "\(refusal)")
                #expect(refusal.detail.contains("grant"), "\(refusal)")
            }
        }

        @Test(
            "an etcd without authentication accepts credentials; an etcd with authentication reports missing credentials"
        )
        func optionalCredentials() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/a", "1")
                try home.writeSecret("password", "hidden")
                let (agent, client) = try home.startFollowing([etcd], Self.access)
                #expect(try client.event()["value"] == ["a": 1])
                try gateway.enableAuthentication(user: "larder", password: "hidden", prefix: "/c/")
                try client.call("config.refresh")
                #expect(try agent.stop() == .exit(0))

                try home.write(settings: AgentHome.etcdSettings([etcd]))
                let refusal = try home.start().connect().refusal("config.refresh")
                #expect(refusal.detail.contains("user name is empty"), "\(refusal)")
            }
        }

        @Test("over TLS the agent trusts the configured authority and presents its client certificate")
        func tls() throws {
            try AgentHome.with { home in
                for (name, subject) in [("ca", "authority"), ("server", "127.0.0.1"), ("client", "larder")] {
                    try home.makeCertificate(name, subject)
                }
                let etcd = try EtcdServer.start(
                    in: home.directory,
                    options: [
                        "--listen-client-urls", "@TLS@", "--cert-file", "@/server.pem", "--key-file", "@/server.key",
                        "--trusted-ca-file", "@/ca.pem", "--client-cert-auth",
                    ])
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/a", "1")
                func settings(_ files: String) -> String {
                    "{ namespaces: { default: { remote: { etcd: { endpoints: ['https://127.0.0.1:\(etcd.securePort)'], "
                        + "prefix: '/c', \(files) } } } } }"
                }
                try home.write(settings: settings("certificateAuthority: '@/ca.pem'"))
                let agent = try home.start()
                let client = try agent.connect()
                #expect(try client.refusal("config.refresh").name == "upstreamFailed")
                try home.write(settings: settings("certificate: '@/client.pem', privateKey: '@/client.key'"))
                try agent.reload()
                #expect(try client.refusal("config.refresh").detail.contains("TLS"))
                try home.write(
                    settings: settings(
                        "certificateAuthority: '@/ca.pem', certificate: '@/client.pem', privateKey: '@/client.key'"))
                try agent.reload()
                try client.call("config.refresh")
                try client.call("config.subscribe")
                #expect(try client.event()["value"] == ["a": 1])
                try gateway.put("/c/a", "2")
                #expect(try client.event()["value"] == ["a": 2])
            }
        }
    }
}

extension AgentHome {
    /// Replaces a file atomically with one of mode 0600.
    fileprivate func writeSecret(_ name: String, _ text: String) throws {
        let path = directory + "/" + name
        guard
            FileManager.default.createFile(
                atPath: path + ".new", contents: Data(text.utf8), attributes: [.posixPermissions: 0o600])
        else { throw HarnessError("cannot write \(path)") }
        rename(path + ".new", path)
    }

    /// Creates `NAME.pem` and `NAME.key`. The certificate `ca` is self-signed; all others are signed by it.
    fileprivate func makeCertificate(_ name: String, _ subject: String) throws {
        var arguments = [
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=\(subject)", "-keyout", "\(name).key", "-out", "\(name).pem",
        ]
        if name != "ca" {
            arguments += ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1"]
            arguments += ["-addext", "basicConstraints=critical,CA:FALSE"]
        }
        let end = try Command.run("openssl", arguments, directory: directory)
        guard end.end == .exit(0) else { throw HarnessError("openssl: \(end.log)") }
        chmod(directory + "/\(name).key", 0o600)
    }
}
