import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("TLS and credentials of remote sources")
    struct AccessTests {
        /// Starts nginx with a certificate that the authority `ours` signed. Also creates the authority `other` and a
        /// client certificate of each authority.
        private static func nginx(_ home: AgentHome, _ lines: String = "") throws -> Nginx {
            let certificates = Certificates(directory: home.directory)
            for authority in ["ours", "other"] {
                try certificates.makeAuthority(authority)
                try certificates.make("client-of-\(authority)", by: authority)
            }
            try certificates.make("server", by: "ours")
            let nginx = try Nginx(lines, directory: home.directory, tls: true)
            try nginx.write(#"{"v":1}"#)
            return nginx
        }

        private static func settings(_ nginx: Nginx, _ more: String) -> String {
            """
            { namespaces: { default: { remote: { http: { url: "\(nginx.url())", intervalSeconds: 86400, \(more) } } } } }
            """
        }

        @Test("a private certificate authority is trusted only if the settings name it")
        func authority() throws {
            try AgentHome.with { home in
                let nginx = try Self.nginx(home)
                try home.write(settings: Self.settings(nginx, "certificateAuthority: '@/ours.pem'"))
                let agent = try home.start()
                let client = try agent.connect()
                #expect(try client.call("config.refresh")["notModified"] != nil)
                #expect(try client.call("config.get", ["v"])["value"] == 1)
                for (settings, word) in [
                    ("certificateAuthority: '@/other.pem'", "certificateAuthority"),
                    ("", "certificateAuthority"), ("certificateAuthority: '@/none.pem'", "none.pem"),
                    ("certificateAuthority: '@/nginx.conf'", "nginx.conf does not contain a PEM certificate"),
                ] {
                    try home.write(settings: Self.settings(nginx, settings))
                    try agent.reload()
                    let refusal = try client.refusal("config.refresh")
                    #expect(refusal.name == "upstreamFailed")
                    #expect(refusal.detail.contains(word), "\(refusal)")
                    #expect(try client.call("config.get", ["v"])["value"] == 1)
                }
            }
        }

        @Test("the agent presents its client certificate, and refuses a private key that others can read")
        func clientCertificate() throws {
            try AgentHome.with { home in
                let nginx = try Self.nginx(
                    home, "ssl_client_certificate \(home.directory)/ours.pem; ssl_verify_client on;")
                func settings(_ client: String?) -> String {
                    let identity = client.map { "certificate: '@/\($0).pem', privateKey: '@/\($0).key'" } ?? ""
                    return Self.settings(nginx, "certificateAuthority: '@/ours.pem', \(identity)")
                }
                try home.write(settings: settings("client-of-ours"))
                #expect(chmod(home.directory + "/client-of-ours.key", 0o600) == 0)
                #expect(chmod(home.directory + "/client-of-other.key", 0o600) == 0)
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.refresh")
                #expect(try client.call("config.get", ["v"])["value"] == 1)
                for (name, word) in [(nil, "400"), ("client-of-other", "400")] {
                    try home.write(settings: settings(name))
                    try agent.reload()
                    #expect(try client.refusal("config.refresh").detail.contains(word))
                }
                #expect(chmod(home.directory + "/client-of-ours.key", 0o644) == 0)
                try home.write(settings: settings("client-of-ours"))
                try agent.reload()
                #expect(
                    try client.refusal("config.refresh").detail.contains("client-of-ours.key: it contains a secret"))
                #expect(chmod(home.directory + "/client-of-ours.key", 0o600) == 0)
                try client.call("config.refresh")
            }
        }

        @Test("an event stream works through nginx with a client certificate")
        func stream() throws {
            let origin = try RawOrigin.listening(.stream(event(#"{"v":1}"#)))
            defer { origin.stop() }
            try AgentHome.with { home in
                let nginx = try Self.nginx(
                    home,
                    "ssl_client_certificate \(home.directory)/ours.pem; ssl_verify_client on; location /events "
                        + "{ proxy_pass http://127.0.0.1:\(origin.port); proxy_buffering off; proxy_http_version 1.1; }"
                )
                #expect(chmod(home.directory + "/client-of-ours.key", 0o600) == 0)
                try home.write(
                    settings: """
                        { namespaces: { default: { remote: { sse: { url: "https://127.0.0.1:\(nginx.port)/events", \
                        certificateAuthority: "@/ours.pem", certificate: "@/client-of-ours.pem", \
                        privateKey: "@/client-of-ours.key" } } } } }
                        """)
                let client = try home.start().connect()
                try client.call("config.subscribe", ["v"])
                try client.events(until: 1)
                origin.send(event(#"{"v":2}"#, type: "patch"))
                try client.events(until: 2)
                // When the origin disconnects, nginx also closes its connection to the agent, and the agent reconnects.
                origin.answer(.stream(event(#"{"v":3}"#)))
                origin.disconnect()
                try client.events(until: 3)
            }
        }

        @Test("the token file or systemd credential is read for each request, and refused if others can read it")
        func tokens() throws {
            let origin = try RawOrigin.listening(.document(#"{"v":1}"#))
            defer { origin.stop() }
            func settings(_ token: String) -> String {
                "{ namespaces: { default: { remote: { http: { url: '\(origin.documentURL)', intervalSeconds: 86400, \(token) } } } } }"
            }
            try AgentHome.with(settings: settings("tokenFile: '@/token'")) { home in
                func write(_ token: String, mode: mode_t) throws {
                    try home.write("token", token + "\n")
                    #expect(chmod(home.directory + "/token", mode) == 0)
                }
                try write("first", mode: 0o600)
                let agent = try home.start(wrapper: ["/usr/bin/env", "CREDENTIALS_DIRECTORY=\(home.directory)"])
                let client = try agent.connect()
                try client.call("config.refresh")
                #expect(try origin.request()["authorization"] == "Bearer first")
                origin.discardEvents()
                try write("second", mode: 0o600)
                try client.call("config.refresh")
                #expect(try origin.request()["authorization"] == "Bearer second")
                try write("second", mode: 0o604)
                #expect(try client.refusal("config.refresh").detail.contains("chmod 600"))
                try home.write(settings: settings("tokenCredential: 'token'"))
                try agent.reload()
                origin.discardEvents()
                try client.call("config.refresh")
                #expect(try origin.request()["authorization"] == "Bearer second")
            }
        }

        @Test("a token file of root that others can read gets advice that works for each user of the agent", .needsRoot)
        func tokenAdvice() throws {
            let origin = try RawOrigin.listening(.document(#"{"v":1}"#))
            defer { origin.stop() }
            let source = "url: '\(origin.documentURL)', intervalSeconds: 86400, tokenFile: '@/token'"
            for user in [0, 4711] {
                try AgentHome.with(settings: "{ namespaces: { default: { remote: { http: { \(source) } } } } }") {
                    home in
                    let token = home.directory + "/token"
                    try home.write("token", "secret\n")
                    #expect(chmod(token, 0o644) == 0)
                    let client = try (user == 0 ? home.start() : home.start(as: user)).connect()
                    let detail = try client.refusal("config.refresh").detail
                    let command = user == 0 ? "chmod 600 \(token)" : "chgrp \(user) \(token) && chmod 640 \(token)"
                    #expect(detail.contains("run: \(command)"), "\(detail)")
                    let done = try Command.run("/bin/sh", ["-c", command])
                    #expect(done.end == .exit(0), "\(done.log)")
                    #expect(try client.call("config.refresh")["state"] == "fresh")
                }
            }
        }

        @Test(
            "no token, header, body or query appears in the log, the status or an error"
        )
        func secrets() throws {
            let origin = try RawOrigin.listening(.document(#"{"data":{"v":1}}"#))
            defer { origin.stop() }
            let access = """
                headers: { "X-Key": "hidden-header" }, tokenFile: "@/token", timeoutSeconds: 0.5
                """
            let settings = """
                { namespaces: {
                  default: { remote: { http: { url: "\(origin.documentURL)?hidden-query", method: "POST", \
                    body: { hidden: "hidden-body" }, responsePath: "/data", \(access) } } },
                  stream: { remote: { sse: { url: "\(origin.streamURL)?hidden-query", \
                    pollUrl: "\(origin.documentURL)?hidden-query&poll", \(access) } } },
                } }
                """
            try AgentHome.with(settings: settings) { home in
                try home.write("token", "hidden-token\n")
                #expect(chmod(home.directory + "/token", 0o600) == 0)
                let agent = try home.start(logLevel: "trace")
                let client = try agent.connect()
                // On a busy machine, the response may arrive after the short timeout.
                try retrying { try client.call("config.refresh") }
                let answers: [RawOrigin.Answer] = [
                    .status("401 Unauthorized", "hidden-token"),
                    .document(#"{"errors":[{"message":"no hidden-token, hidden-header, Bearer hidden-token"}]}"#),
                    .stream(event("hidden")), .stream(event("hidden", type: "patch")), .document("hidden-garbage"),
                    .text("hidden", thenClose: true), .text("", thenClose: true), .hang,
                    .status("302 Found", "", fields: ["Location: /elsewhere?hidden-query"]),
                ]
                for answer in answers {
                    origin.disconnect()
                    origin.answer(answer)
                    for namespace in ["default", "stream"] {
                        do {
                            try client.call("config.refresh", ["namespace": .string(namespace)])
                        } catch let refusal as LineClient.Refusal {
                            #expect(!refusal.detail.contains("hidden"), "\(refusal)")
                        }
                    }
                    #expect(!(try client.call("config.status").compactText.contains("hidden")))
                }
                #expect(chmod(home.directory + "/token", 0o644) == 0)
                #expect(!(try client.refusal("config.refresh").detail.contains("hidden")))
                #expect(try agent.stop() == .exit(0))
                #expect(!agent.log.contains("hidden"), "\(agent.log)")
            }
        }
    }
}
