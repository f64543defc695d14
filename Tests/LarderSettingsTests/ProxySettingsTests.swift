import LarderConfig
import LarderConfigSources
import LarderUpstream
import Testing

@testable import LarderSettings

@Suite("Proxy settings")
struct ProxySettingsTests {
    private func settings(_ text: String) throws(SettingsError) -> Settings { try Settings(parsing: Array(text.utf8)) }

    @Test("the general proxy applies to all sources and images that have no own one")
    func inheritance() throws {
        let settings = try settings(
            """
            { proxy: { url: 'http://Proxy.example:3128/', user: 'u', passwordFile: '/p', noProxy: ['*'], resolvesNames: true },
              images: { origins: { 'https://i': { proxy: 'none' }, 'https://j': {} } },
              namespaces: {
                a: { remote: { http: { url: 'https://h' } } },
                b: { remote: { sse: { url: 'https://h', proxy: 'none' } } },
                c: { remote: { etcd: { endpoints: ['https://h'], prefix: '', proxy: { url: 'http://[::1]' } } } },
                d: { remote: { file: { path: '/f' } } },
              } }
            """)
        let general = try #require(settings.images.proxy)
        #expect(general.secure == general.plain)
        #expect(general.secure?.host == "proxy.example")
        #expect(general.secure?.port == 3128)
        #expect(general.secure?.user == "u")
        #expect(general.secure?.password == .credential(.file("/p")))
        #expect(general.exceptions == [.all])
        #expect(general.resolvesNames)
        guard case .http(let a)? = settings.namespaces["a"]?.remote,
            case .sse(let b)? = settings.namespaces["b"]?.remote,
            case .etcd(let c)? = settings.namespaces["c"]?.remote
        else {
            Issue.record("a source is missing")
            return
        }
        #expect(a.access.proxy == .proxy(general))
        #expect(b.access.proxy == .direct)
        #expect(c.proxy.settings?.secure?.host == "::1")
        #expect(c.proxy.settings?.secure?.port == 80)
        #expect(settings.images.origins["https://i"]?.access.proxy == .direct)
        #expect(settings.images.origins["https://j"]?.access.proxy == .inherited)
    }

    @Test("the environment names proxies, and lower-case names take precedence")
    func environment() throws {
        let proxies = try ProxySettings(environment: [
            "HTTPS_PROXY": "http://a:1", "https_proxy": "http://us%40er:p%3Ass@b.example:2/", "HTTP_PROXY": "c:3",
            "NO_PROXY": "localhost, .internal,10.0.0.0/8,bad:80,*",
        ])
        #expect(proxies.secure?.host == "b.example")
        #expect(proxies.secure?.port == 2)
        #expect(proxies.secure?.user == "us@er")
        #expect(proxies.secure?.password == .text("p:ss"))
        #expect(proxies.plain?.host == "c")
        #expect(proxies.plain?.port == 3)
        #expect(proxies.plain?.user == nil)
        #expect(proxies.exceptions.count == 4)
        let none = try ProxySettings(environment: ["HTTPS_PROXY": ""])
        #expect(none.secure == nil && none.plain == nil && none.exceptions.isEmpty)
        for bad in ["https://p", "socks5://p", "http://u:s3cret@p:0"] {
            let error = #expect(throws: ProxySettings.EnvironmentProblem.self) {
                try ProxySettings(environment: ["HTTPS_PROXY": bad])
            }
            #expect(error?.name == "HTTPS_PROXY")
            #expect(error?.problem.contains("s3cret") == false)
        }
    }

    @Test(
        "invalid settings of a proxy are errors that show no password",
        arguments: [
            ("{}", "proxy needs \"url\""),
            ("'direct'", "must be an object, \"environment\" or \"none\", not \"direct\""),
            ("{ url: 'https://p' }", "proxy.url must be an http URL without a path"),
            ("{ url: 'http://p/x' }", "proxy.url must be an http URL without a path"),
            ("{ url: 'http://u:s3cret@p' }", "remove it, and give \"user\" and \"passwordFile\""),
            ("{ url: 'http://p', user: 'u' }", "proxy.user needs a password"),
            ("{ url: 'http://p', passwordFile: '/p' }", "proxy has a password but no \"user\""),
            ("{ url: 'http://p', noProxy: ['a b'] }", "proxy.noProxy[0] must be a domain"),
        ])
    func refusals(text: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try settings("{ proxy: \(text) }") }
        #expect(error?.description.contains(message) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("s3cret") == false)
    }
}
