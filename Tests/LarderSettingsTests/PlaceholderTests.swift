import LarderConfig
import LarderConfigSources
import LarderUpstream
import Testing

@testable import LarderSettings

@Suite("Placeholders in the settings")
struct PlaceholderTests {
    private static let host = HostFacts(name: "kiosk-7", id: "0123456789abcdef0123456789abcdef")

    private func settings(_ text: String, host: HostFacts = host) throws(SettingsError) -> Settings {
        try Settings(parsing: Array(text.utf8), host: host)
    }

    private func url(_ url: String, labels: String = "site: 'ber/lin ß'", host: HostFacts = host) throws -> String? {
        let settings = try settings(
            "{ report: { labels: { \(labels) } }, namespaces: { a: { remote: { http: { url: '\(url)' } } } } }",
            host: host)
        guard case .http(let http)? = settings.namespaces["a"]?.remote else { return nil }
        return http.url
    }

    private func refusal(_ url: String, host: HostFacts = host) -> String {
        do { return try "no error: \(self.url(url, host: host) ?? "")" } catch { return "\(error)" }
    }

    @Test("placeholders in a URL are replaced, and percent-encoded in its path and query")
    func urls() throws {
        #expect(try url("https://{hostname}.example.org:8443/a") == "https://kiosk-7.example.org:8443/a")
        #expect(
            try url("https://h/{hostname}/{label:site}.json?id={hostId}&s={label:site}")
                == "https://h/kiosk-7/ber%2Flin%20%C3%9F.json?id=0123456789abcdef0123456789abcdef&s=ber%2Flin%20%C3%9F")
        #expect(try url("https://h?{hostname}", host: HostFacts(name: "a.b:c")) == "https://h?a.b%3Ac")
    }

    @Test("in the host of a URL, a value may have only letters, digits and hyphens")
    func hosts() {
        for name in ["a.b", "a/b", "a@b", "a:1", "a_b", "", "é"] {
            let refusal = refusal("https://{hostname}/a", host: HostFacts(name: name))
            #expect(refusal.contains("has {hostname} in its host, but the value"), "\(name): \(refusal)")
            #expect(refusal.hasPrefix("1:"), "\(refusal)")
        }
        #expect(refusal("https://{hostname}@h/", host: HostFacts(name: "a")).contains("user name"))
    }

    @Test("etcd keys and header values get the values as they are, and doubled braces are braces")
    func texts() throws {
        let settings = try settings(
            """
            { report: { labels: { site: 'ber/lin' } }, images: { origins: { 'https://i': { headers: { H: '{{{hostname}}}' } } } },
              namespaces: {
                a: { remote: { etcd: { endpoints: ['https://{hostname}:2379'], prefix: '/hosts/{hostname}/{label:site}' } } },
                b: { remote: { etcd: { endpoints: ['https://h'], key: '/{{a}}/{hostId}' } } },
                c: { remote: { sse: { url: 'https://h/{hostname}', pollUrl: 'https://h/p/{hostname}', headers: { H: '{hostname}' } } } },
              } }
            """)
        guard case .etcd(let a)? = settings.namespaces["a"]?.remote,
            case .etcd(let b)? = settings.namespaces["b"]?.remote, case .sse(let c)? = settings.namespaces["c"]?.remote
        else {
            Issue.record("a source is missing")
            return
        }
        #expect(a.endpoints == ["https://kiosk-7:2379"])
        #expect(a.location == "https://kiosk-7:2379 prefix /hosts/kiosk-7/ber/lin/")
        #expect(b.location == "https://h key /{a}/0123456789abcdef0123456789abcdef")
        #expect(c.url == "https://h/kiosk-7")
        #expect(c.pollURL == "https://h/p/kiosk-7")
        #expect(c.access.headers == ["H": "kiosk-7"])
        #expect(settings.images.origins["https://i"]?.access.headers == ["H": "{kiosk-7}"])
    }

    @Test("%% before H and ${{ are the escapes of other notations in texts that are not URLs")
    func escapes() throws {
        func header(_ text: String) throws -> String? {
            let settings = try settings(
                "{ namespaces: { a: { remote: { http: { url: 'https://h', headers: { A: '\(text)' } } } } } }")
            guard case .http(let http)? = settings.namespaces["a"]?.remote else { return nil }
            return http.access.headers["A"]
        }
        for (text, expected) in [
            ("%%H", "%H"), ("a%%Hb", "a%Hb"), ("%%%H", "%%H"), ("%%", "%%"), ("%41%", "%41%"), ("%h", "%h"),
            ("${{HOSTNAME}}", "${HOSTNAME}"), ("$1 {hostname}", "$1 kiosk-7"), ("$", "$"),
        ] { #expect(try header(text) == expected, "\(text)") }
        for text in ["%%H%H", "${HOSTNAME}"] {
            #expect(throws: SettingsError.self, "\(text)") { try header(text) }
        }
        let error = #expect(throws: SettingsError.self) { try header("%H") }
        #expect(error?.description.contains("write {hostname}, or %%H for these characters") == true)
        #expect(refusal("https://h/%%H").contains("write {hostname}"), "a URL percent-encodes a percent sign")
    }

    @Test("other settings have no placeholders")
    func otherSettings() throws {
        let settings = try settings("{ namespaces: { a: { remote: { file: { path: '/{hostname}%H' } } } } }")
        guard case .file(let file)? = settings.namespaces["a"]?.remote else { throw SettingsError("no file") }
        #expect(file.path == "/{hostname}%H")
    }

    @Test("an unknown placeholder and other notations are errors with the right form")
    func refusals() {
        for (text, expected) in [
            ("{hostName}", "unknown placeholder {hostName}; write {hostname}"), ("{hostid}", "write {hostId}"),
            ("{host}", "unknown placeholder {host}; known are {hostname}, {hostId} and {label:NAME}"),
            ("{colour}", "unknown placeholder {colour}; known are {hostname}, {hostId} and {label:NAME}"),
            ("%H", "contains %H, a specifier of systemd, which is not replaced here; write {hostname}"),
            ("${HOSTNAME}", "contains a variable of the environment, which is not replaced here; write {hostname}"),
            ("{label:room}", "which has no value; add the label \"room\" to report.labels"),
            ("{label:}", "invalid label name"), ("{hostname", "contains a { without }"),
            ("a}", "contains a } without {"),
        ] {
            let refusal = refusal("https://h/\(text)")
            #expect(refusal.contains("namespaces.a.remote.http.url contains"), "\(refusal)")
            #expect(refusal.contains(expected), "\(refusal)")
        }
        let withoutID = refusal("https://h/{hostId}", host: HostFacts(name: "a"))
        #expect(withoutID.contains("this host has no machine ID"), "\(withoutID)")
    }

    @Test("an error does not show text that may be a secret")
    func secrets() {
        let text =
            "{ namespaces: { a: { remote: { http: { url: 'https://h', headers: { A: 'x {\"s3cret\": 1}' } } } } } }"
        let error = #expect(throws: SettingsError.self) { try settings(text) }
        #expect(error?.description.contains("s3cret") == false)
        #expect(error?.member == "namespaces.a.remote.http.headers.A")
    }

    @Test("an invalid placeholder does not hide other errors, and is reported once")
    func examination() {
        let text = "{ color: 1, namespaces: { a: { remote: { http: { url: 'https://h/{x}' } } } } }"
        #expect(Settings.examine(Array(text.utf8), maxErrors: 100).errors.count == 2)
    }

    @Test("labels have names and values in limits")
    func labels() throws {
        #expect(
            try settings("{ report: { labels: { site: 'x', 'a-b_1': 'y' } } }").labels == ["site": "x", "a-b_1": "y"])
        for bad in ["'a b': 'x'", "'': 'x'", "a: ''", "a: 1", "a: '\\n'"] {
            #expect(throws: SettingsError.self, "\(bad)") { try settings("{ report: { labels: { \(bad) } } }") }
        }
    }
}
