import NIOPosix
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

    /// A resolver that knows no name.
    private struct NoNames: HostResolver {
        func addresses(of name: String) async throws(UpstreamError) -> [IPAddress] { [] }
    }

    private func test(_ settings: ProxySettings, _ url: String?) async -> ProxyTest? {
        await ProxyTest.run(settings, for: url, resolver: NoNames(), on: MultiThreadedEventLoopGroup.singleton)
    }

    @Test("a test of a proxy reports names that do not resolve, and requests only what the agent would request")
    func tests() async throws {
        var settings = ProxySettings(secure: try ProxySettings.Server("http://p:1"), plain: nil)
        settings.exceptions = [try #require(ProxyException("internal"))]
        for url in ["http://h", "https://internal", "no url"] { #expect(await test(settings, url) == nil, "\(url)") }
        let unresolved = await test(settings, "https://h")
        #expect(unresolved?.proxy == "p:1" && unresolved?.isUntested == false)
        #expect(unresolved?.problem == "the name of the proxy p:1 does not resolve; check it and DNS")
        #expect(await test(settings, nil)?.problem == unresolved?.problem)

        settings.secure = try ProxySettings.Server("http://127.0.0.1:1")
        let target = await test(settings, "https://h")
        #expect(target?.problem?.hasPrefix("the name h does not resolve on this host; ") == true)
        let ipv6 = await test(settings, "https://[::1]:8443")
        #expect(ipv6?.problem?.contains("has only IPv6 addresses") == true, "\(ipv6?.problem ?? "")")
    }

    @Test("a proxy whose password cannot be read is not tested")
    func unreadablePassword() async throws {
        var server = try ProxySettings.Server("http://127.0.0.1:1")
        (server.user, server.password) = ("u", .credential(.file("/nonexistent/password")))
        let test = await test(ProxySettings(secure: server, plain: server), "https://192.0.2.1")
        #expect(test?.isUntested == true && test?.target == nil)
        #expect(test?.problem?.contains("/nonexistent/password") == true)
    }
}
