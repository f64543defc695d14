import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Sources and images behind a proxy")
    struct ProxyTests {
        private static func source(_ url: String, _ more: String = "") -> String {
            "namespaces: { default: { remote: { http: { url: '\(url)', intervalSeconds: 86400\(more) } } } }"
        }

        @Test("a source is fetched through a proxy with authentication, and a refusal says what to correct")
        func authentication() throws {
            try AgentHome.with { home in
                let nginx = try Nginx(directory: home.directory)
                try nginx.write(#"{"n":1}"#)
                let proxy = try Tinyproxy(in: home.directory, "BasicAuth fleet s3cret")
                defer { proxy.stop() }
                try home.write("password", "wrong\n")
                chmod("\(home.directory)/password", 0o600)
                let url = "proxy: { url: '\(proxy.url)'"
                try home.write(settings: "{ \(url) }, \(Self.source(nginx.url())) }")
                let agent = try home.start()
                let client = try agent.connect()
                let anonymous = try client.refusal("config.refresh").detail
                #expect(
                    anonymous.contains("the proxy 127.0.0.1:\(proxy.port) requires a user (status 407)"), "\(anonymous)"
                )
                try home.write(
                    settings: "{ \(url), user: 'fleet', passwordFile: '@/password' }, \(Self.source(nginx.url())) }")
                try agent.reload()
                let refusal = try client.refusal("config.refresh").detail
                #expect(refusal.contains("rejects the user or the password (status 401)"), "\(refusal)")
                try home.write("password", "s3cret\n")
                chmod("\(home.directory)/password", 0o600)
                try client.call("config.refresh")
                #expect(try client.call("config.get", ["n"])["value"] == 1)
                try proxy.waitForTunnel(to: "127.0.0.1:\(nginx.port)")
                #expect(!agent.log.contains("s3cret"))
            }
        }

        @Test("a proxy that refuses a port or does not run is named in the error, with the status")
        func refusals() throws {
            try AgentHome.with { home in
                let nginx = try Nginx(directory: home.directory)
                let proxy = try Tinyproxy(in: home.directory, "ConnectPort 443")
                try home.write(settings: "{ proxy: { url: '\(proxy.url)' }, \(Self.source(nginx.url())) }")
                let client = try home.start().connect()
                let refusal = try client.refusal("config.refresh").detail
                #expect(
                    refusal.contains(
                        "the proxy 127.0.0.1:\(proxy.port) refuses a connection to 127.0.0.1:\(nginx.port) with status 403"
                    ),
                    "\(refusal)")
                #expect(refusal.contains("many proxies refuse ports other than 443"), "\(refusal)")
                let refused = try home.larder("doctor").text
                #expect(
                    refused.contains(
                        "the proxy 127.0.0.1:\(proxy.port) refuses a connection to 127.0.0.1:\(nginx.port) with status 403"
                    ),
                    "\(refused)")
                #expect(refused.contains("used by namespaces.default.remote"), "\(refused)")
                proxy.stop()
                let doctor = try home.larder("doctor").text
                #expect(
                    doctor.contains("the proxy 127.0.0.1:\(proxy.port) cannot be reached: Connection refused"),
                    "\(doctor)")
                let absence = try client.refusal("config.refresh").detail
                #expect(
                    absence.contains("the proxy 127.0.0.1:\(proxy.port) cannot be reached: Connection refused"),
                    "\(absence)")
            }
        }

        @Test("doctor opens tunnels through proxies of the agent's environment, and of URLs with placeholders")
        func doctor() throws {
            try AgentHome.with { home in
                let nginx = try Nginx(directory: home.directory)
                let proxy = try Tinyproxy(in: home.directory, "BasicAuth fleet s3cret")
                defer { proxy.stop() }
                let source = Self.source("http://{label:host}:\(nginx.port)/{hostname}.json")
                let labels = "report: { labels: { host: 'localhost', last: '1' } }"
                let tunnel = "127.0.0.1:\(proxy.port) opens a tunnel to 127.0.0.1:\(nginx.port)"
                try home.write("password", "wrong\n")
                chmod("\(home.directory)/password", 0o600)
                try home.write(
                    settings: """
                        { \(labels), proxy: { url: 'http://127.0.0.{label:last}:\(proxy.port)', user: 'fleet',
                          passwordFile: '@/password' }, \(source) }
                        """)
                let rejected = try home.larder("doctor", "--settings", home.settings).text
                #expect(rejected.contains("rejects the user or the password (status 401)"), "\(rejected)")
                try home.write("password", "s3cret\n")
                chmod("\(home.directory)/password", 0o600)
                let accepted = try home.larder("doctor", "--settings", home.settings).text
                #expect(accepted.contains(tunnel), "\(accepted)")
                #expect(accepted.contains("127.0.0.1:\(proxy.port) accepts connections"), "\(accepted)")
                #expect(!rejected.contains("s3cret") && !accepted.contains("s3cret"))

                try home.write(settings: "{ \(labels), proxy: 'environment', \(source) }")
                let url = "http_proxy=http://fleet:s3cret@127.0.0.1:\(proxy.port)"
                _ = try home.start(wrapper: ["env", url])
                let environment = try home.larder("doctor").text
                #expect(environment.contains(tunnel), "\(environment)")
                #expect(!environment.contains("variables of this command") && !environment.contains("s3cret"))
            }
        }

        @Test("the agent resolves names and requests addresses, unless resolvesNames is true; noProxy and none bypass")
        func names() throws {
            try AgentHome.with { home in
                let nginx = try Nginx(directory: home.directory)
                try nginx.write(#"{"n":1}"#)
                let proxy = try Tinyproxy(in: home.directory)
                let url = "http://localhost:\(nginx.port)/config.json"
                try home.write(settings: "{ proxy: { url: '\(proxy.url)' }, \(Self.source(url)) }")
                let agent = try home.start()
                let client = try agent.connect()
                try client.call("config.refresh")
                try proxy.waitForTunnel(to: "127.0.0.1:\(nginx.port)")
                try home.write(settings: "{ proxy: { url: '\(proxy.url)', resolvesNames: true }, \(Self.source(url)) }")
                try agent.reload()
                try client.call("config.refresh")
                try proxy.waitForTunnel(to: "localhost:\(nginx.port)")
                // The following requests can only succeed without the proxy.
                proxy.stop()
                for settings in [
                    "{ proxy: { url: '\(proxy.url)', noProxy: ['localhost'] }, \(Self.source(url)) }",
                    "{ proxy: { url: '\(proxy.url)' }, \(Self.source(url, ", proxy: 'none'")) }",
                ] {
                    try home.write(settings: settings)
                    try agent.reload()
                    try client.call("config.refresh")
                }
            }
        }

        @Test("images are fetched through the proxy over TLS, and the addresses of their hosts are still checked")
        func images() throws {
            try AgentHome.with { home in
                let nginx = try Nginx(directory: home.directory, tls: true) { directory in
                    let certificates = Certificates(directory: directory)
                    try certificates.makeAuthority("ours")
                    try certificates.make("server", by: "ours")
                }
                try Data(TestImage(.png, seed: 1, size: 20_000).bytes).write(
                    to: URL(fileURLWithPath: "\(home.directory)/www/a.png"))
                let proxy = try Tinyproxy(in: home.directory)
                defer { proxy.stop() }
                func settings(_ networks: String, resolvesNames: Bool) -> String {
                    """
                    { proxy: { url: '\(proxy.url)', resolvesNames: \(resolvesNames) }, images: { allowNetworks: [\(networks)],
                      minimumFreeBytes: 0, failures: { rejectedSeconds: 0, networkSeconds: 0 },
                      origins: { '\(nginx.url("").dropLast())': { certificateAuthority: '@/ours.pem' } } } }
                    """
                }
                try home.write(settings: settings("", resolvesNames: true))
                let agent = try home.start()
                let client = try agent.connect()
                #expect(try client.imageRefusal(nginx.url("a.png")).detail.contains("is a loopback address"))
                #expect(proxy.tunnels == 0)
                try home.write(settings: settings("'127.0.0.1/32'", resolvesNames: false))
                try agent.reload()
                #expect(try client.image(nginx.url("a.png"))["bytes"] == 20_000)
                try proxy.waitForTunnel(to: "127.0.0.1:\(nginx.port)")
            }
        }

        @Test("an event stream and an etcd watch continue although the proxy cuts idle connections")
        func idleStreams() throws {
            try AgentHome.with { home in
                let etcd = try EtcdServer.start(in: home.directory)
                defer { etcd.kill() }
                let gateway = EtcdGateway(port: etcd.clientPort)
                try gateway.put("/c/n", "1")
                let origin = try RawOrigin.listening(.stream(event(#"{"n":1}"#)))
                defer { origin.stop() }
                let proxy = try Tinyproxy(in: home.directory, timeout: 1)
                defer { proxy.stop() }
                try home.write(
                    settings: """
                        { proxy: { url: '\(proxy.url)' }, namespaces: {
                          sse: { remote: { sse: { url: '\(origin.streamURL)' } } },
                          etcd: { remote: { etcd: { endpoints: ['\(etcd.url)'], prefix: '/c/' } } } } }
                        """)
                let client = try home.start().connect()
                for namespace in ["sse", "etcd"] {
                    try client.call("config.subscribe", ["namespace": .string(namespace)])
                    try client.events(until: ["n": 1])
                }
                // The second request for events shows that the proxy has cut the first stream.
                try origin.request(for: "/events")
                try origin.request(for: "/events")
                try gateway.put("/c/n", "2")
                try client.events(until: ["n": 2])
                origin.answer(.stream(event(#"{"n":3}"#)))
                try client.events(until: ["n": 3])
            }
        }
    }
}
