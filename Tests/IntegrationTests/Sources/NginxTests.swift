import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("nginx as source")
    struct NginxTests {
        @Test("an unchanged document is answered with 304, even after a restart of the agent")
        func conditionalRequests() throws {
            try AgentHome.with { home in
                let nginx = try Nginx(directory: home.directory)
                try nginx.write(#"{"version":"1","n":1}"#)
                try home.write(
                    settings:
                        "{ namespaces: { default: { remote: { http: { url: '\(nginx.url())', intervalSeconds: 86400 } } } } }"
                )
                let first = try home.start()
                let client = try first.connect()
                try client.call("config.subscribe", ["n"])
                #expect(try client.event()["value"] == 1)
                #expect(try nginx.access() == "200 -")
                let tag = try require(try first.status()["upstream"]?["etag"]?.string, "entity tag")

                let second = try client.call("config.refresh")
                #expect(try nginx.access() == "304 " + tag.replacing("\"", with: "\\x22"))
                #expect(second["notModified"] == true)

                try nginx.write(#"{"version":"2","n":22}"#)
                #expect(try client.call("config.refresh")["changed"] == true)
                #expect(try client.event()["value"] == 22)
                #expect(try nginx.access().hasPrefix("200 "))
                #expect(try first.stop() == .exit(0))

                let restarted = try home.start()
                #expect(try restarted.call("config.refresh")["notModified"] == true)
                #expect(try nginx.access().hasPrefix("304 "))
                #expect(try restarted.call("config.get", ["n"])["value"] == 22)
            }
        }
    }
}
