import Testing

@testable import LarderUpstream

@Suite("Proxies")
struct ProxyTests {
    private func options(_ exceptions: [String]) throws -> ProxyOptions {
        var settings = ProxySettings(
            secure: try ProxySettings.Server("http://secure:1"), plain: try ProxySettings.Server("http://plain:2"))
        settings.exceptions = try exceptions.map { try #require(ProxyException($0), "\($0)") }
        return try settings.read()
    }

    @Test("the scheme of a URL selects the proxy")
    func schemes() throws {
        let options = try options([])
        #expect(options.server(for: try FetchURL(parsing: "https://h:80"))?.place == "secure:1")
        #expect(options.server(for: try FetchURL(parsing: "http://h:443"))?.place == "plain:2")
    }

    @Test(
        "hosts of noProxy are reached without a proxy",
        arguments: [
            ("*", "https://h", true), ("example.org", "https://example.org", true),
            ("example.org", "https://A.Example.ORG.", true),
            (".example.org", "https://a.b.example.org", true), ("example.org", "https://notexample.org", false),
            ("example.org", "https://example.org.evil", false), ("10.0.0.0/8", "https://10.1.2.3", true),
            ("10.0.0.0/8", "https://11.1.2.3", false), ("10.0.0.0/8", "https://h", false),
            ("fd00::/8", "https://[fd00::1]", true),
            ("::1", "https://[::1]:8443", true), ("1.2.3.4", "https://1.2.3.4", true),
        ])
    func exceptions(exception: String, url: String, isDirect: Bool) throws {
        #expect((try options([exception]).server(for: try FetchURL(parsing: url)) == nil) == isDirect)
    }

    @Test("a URL of a proxy with TLS or a path is invalid")
    func urls() {
        for url in ["https://p", "http://p/a", "http://p?a", "p:3128", "http://u@p"] {
            #expect(throws: InvalidURL.self) { try ProxySettings.Server(url) }
        }
    }

    @Test("a user without a password file sends an empty password only if there is a user")
    func passwords() throws {
        var server = try ProxySettings.Server("http://[::1]:3128")
        server.user = "u"
        server.password = .text("p")
        let options = try ProxySettings(secure: server, plain: nil).read()
        #expect(options.secure?.password == "p")
        #expect(options.secure?.place == "[::1]:3128")
        #expect(options.plain == nil)
        server.user = nil
        #expect(try ProxySettings(secure: server, plain: nil).read().secure?.password == nil)
    }
}
