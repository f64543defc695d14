import LarderConfig
import LarderConfigSources
import LarderServer
import LarderUpstream
import Testing

@testable import LarderSettings

@Suite("Report settings")
struct ReportSettingsTests {
    private func settings(_ text: String) throws(SettingsError) -> Settings {
        try Settings(
            parsing: Array(text.utf8), host: HostFacts(name: "kiosk-7", id: "0123456789abcdef0123456789abcdef"))
    }

    @Test("all members are read, placeholders are replaced, and the general proxy applies")
    func members() throws {
        let settings = try settings(
            """
            { proxy: { url: 'http://proxy:3128' },
              report: {
                url: 'https://fleet.example/{label:site}/{hostId}', intervalSeconds: 60, splaySeconds: 10,
                labels: { site: 'berlin' }, includeReasons: true, tokenFile: '/token', headers: { 'X-Host': '{hostname}' },
                certificateAuthority: '/ca',
              } }
            """)
        let report = try #require(settings.report)
        #expect(report.url == "https://fleet.example/berlin/0123456789abcdef0123456789abcdef")
        #expect(report.interval == .seconds(60) && report.splay == .seconds(10))
        #expect(report.labels == ["site": "berlin"] && settings.labels == report.labels)
        #expect(report.includesReasons)
        #expect(report.access.token == .file("/token"))
        #expect(report.access.headers == ["X-Host": "kiosk-7"])
        #expect(report.access.tls.certificateAuthority == "/ca")
        #expect(report.access.proxy.settings?.secure?.host == "proxy")
    }

    @Test("a receiver without TLS is not reached through a proxy")
    func plainReceiver() throws {
        let report = try #require(
            try settings("{ proxy: { url: 'http://proxy' }, report: { url: 'http://127.0.0.1:1/' } }").report)
        #expect(report.access.proxy == .direct)
    }

    @Test("without a receiver there are no reports, but labels")
    func labels() throws {
        #expect(try settings("{}").report == nil)
        let settings = try settings("{ report: { labels: { site: 'x' } } }")
        #expect(settings.report == nil && settings.labels == ["site": "x"])
        let report = try #require(try self.settings("{ report: { url: 'https://f' } }").report)
        #expect(report == ReportSettings(url: "https://f"))
    }

    @Test(
        "http is accepted only for a receiver on this host",
        arguments: [
            ("http://127.0.0.1:8095/", true), ("http://[::1]/", true), ("http://localhost/x", true),
            ("https://f/", true),
            ("http://f/", false), ("http://10.0.0.1/", false), ("http://localhost.example/", false),
        ])
    func privacy(_ url: String, _ isAccepted: Bool) throws {
        do throws(SettingsError) {
            #expect(try settings("{ report: { url: '\(url)' } }").report?.url == url)
            #expect(isAccepted)
        } catch {
            #expect(!isAccepted && error.member == "report.url" && error.reason.contains("https://"), "\(error)")
        }
    }

    @Test(
        "invalid members are errors",
        arguments: [
            "intervalSeconds: 29", "intervalSeconds: 86401", "splaySeconds: -1", "splaySeconds: 3601",
            "includeReasons: 1",
            "lables: {}", "tokenFile: 'x'",
        ])
    func invalid(_ member: String) {
        #expect(throws: SettingsError.self) { try settings("{ report: { url: 'https://f', \(member) } }") }
    }

    @Test("a member without a receiver is an error that names url")
    func noReceiver() throws {
        let error = try #require(throws: SettingsError.self) { try settings("{ report: { intervalSeconds: 60 } }") }
        #expect(error.reason.contains("has no effect without \"url\""), "\(error)")
    }

    @Test("reportToSource is a setting of http and sse sources")
    func reportToSource() throws {
        let settings = try settings(
            """
            { namespaces: { a: { remote: { http: { url: 'https://h', reportToSource: true } } },
                            b: { remote: { sse: { url: 'https://h', reportToSource: true } } } } }
            """)
        guard case .http(let a)? = settings.namespaces["a"]?.remote,
            case .sse(let b)? = settings.namespaces["b"]?.remote
        else {
            Issue.record("a source is missing")
            return
        }
        #expect(a.reportsToSource && b.reportsToSource)
    }
}
