import LarderConfig
@testable import LarderConfigSources
import LarderJSON
import LarderSettings
import LarderUpstream
import Testing

@Suite("Remote settings")
struct RemoteSettingsTests {
    private func remote(_ text: String) throws -> RemoteSourceSettings? {
        try settings("{namespaces: {a: {remote: \(text)}}}").namespaces["a"]?.remote
    }

    private func body(_ text: String) throws -> String? {
        guard case .http(let http) = try remote("{http: {url: 'http://h', method: 'POST', \(text)}}") else {
            return nil
        }
        return http.body.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("every setting of an HTTP source is read")
    func http() throws {
        var expected = HTTPSourceSettings(url: "https://h/graphql", versionPath: JSONPath(["version"]))
        expected.body = Array(#"{"query":"{ config }"}"#.utf8)
        expected.responsePath = JSONPath(["data", "config"])
        expected.partialData = .accept
        expected.firstFetchWindow = .zero
        expected.longPoll = .init(waitSeconds: 30, queryMember: "wait")
        expected.staleIfError = .seconds(3600)
        expected.access = HTTPAccess(
            headers: ["X-Fleet": "kiosk"], token: .systemd("token"),
            tls: TLSFiles(certificateAuthority: "/ca.pem", certificate: "/c.pem", privateKey: "/c.key"))
        let http = try remote(
            """
            {http: {
              url: "https://h/graphql", method: "POST", body: { query: "{ config }" }, responsePath: "/data/config",
              partialData: "accept",
              firstFetchSplaySeconds: 0,
              longPoll: { waitSeconds: 30, queryMember: "wait" }, staleIfErrorSeconds: 3600,
              headers: { "X-Fleet": "kiosk" }, tokenCredential: "token",
              certificateAuthority: "/ca.pem", certificate: "/c.pem", privateKey: "/c.key",
            }}
            """)
        #expect(http == .http(expected))
    }

    @Test("every setting of an event stream is read, and all except the URL have defaults")
    func sse() throws {
        let defaults = SSESourceSettings(url: "http://h/events", versionPath: JSONPath(["version"]))
        #expect(try remote("{sse: {url: 'http://h/events'}}") == .sse(defaults))
        var expected = SSESourceSettings(url: "https://h/events")
        expected.pollURL = "https://h/config.json"
        expected.interval = .seconds(900)
        expected.reconnectWindow = .seconds(90)
        expected.firstFetchWindow = .seconds(10)
        expected.heartbeat = .seconds(20)
        expected.timeout = .seconds(5)
        expected.patchEvents = ["delta", "patch"]
        expected.access = HTTPAccess(
            headers: ["X-Fleet": "kiosk"], token: .file("/token"), tls: TLSFiles(certificateAuthority: "/ca.pem"))
        let sse = try remote(
            """
            {sse: {
              url: "https://h/events", pollUrl: "https://h/config.json", intervalSeconds: 900, heartbeatSeconds: 20,
              reconnectSplaySeconds: 90, firstFetchSplaySeconds: 10,
              timeoutSeconds: 5, patchEvents: ["delta", "patch"], versionPath: null, headers: { "X-Fleet": "kiosk" },
              tokenFile: "/token", certificateAuthority: "/ca.pem",
            }}
            """)
        #expect(sse == .sse(expected))
    }

    @Test("a body that is a string is sent unchanged, and any other JSON5 value is sent as JSON")
    func bodies() throws {
        #expect(try body("") == "")
        #expect(try body("body: null") == "")
        #expect(try body("body: '{ a }'") == "{ a }")
        #expect(
            try body("body: {a: [1, 1.50, 16, 0.5, 2, -0, true, null, 'x'], 'b c': {}}")
                == #"{"a":[1,1.50,16,0.5,2,-0,true,null,"x"],"b c":{}}"#)
    }

    @Test("header values and bodies do not appear in descriptions of settings")
    func secrets() throws {
        let all = try settings(
            """
            {namespaces: {
              a: {remote: {http: {url: 'http://h', method: 'POST', body: {q: 'hunter2'}, headers: {A: 'hunter2'}}}},
              b: {remote: {sse: {url: 'http://h', headers: {A: 'hunter2'}, tokenFile: '/token'}}},
            }}
            """)
        for text in ["\(all)", String(reflecting: all), "\(all.namespaces)"] {
            #expect(!text.contains("hunter2"))
            #expect(!text.contains("104, 117, 110"), "the body does not appear as bytes, either")
            #expect(text.contains("/token"))
        }
    }
}
