import LarderHTTPGateway
import NIOCore
import Testing

@Suite("Settings of the gateway")
struct GatewaySettingsTests {
    @Test("settings with only a namespace have the defaults")
    func defaults() throws {
        let settings = try GatewaySettings.parse(
            Array("{ namespaces: { shop: { flags: 'switches' } } }".utf8), "http.json")
        #expect(
            settings.listen.description == "[IPv4]127.0.0.1:8016" && settings.access == .socketPermissions)
        #expect(settings.hosts == ["localhost", "127.0.0.1"] && settings.origins.isEmpty)
        #expect(settings.maxConnections == 1000 && settings.maxBodyBytes == 65_536)
        let namespace = try #require(settings.namespaces.first)
        #expect(namespace.name == "shop" && !namespace.servesConfig && namespace.flags == "switches")
    }

    @Test(
        "an error has the file, the line, the member and what to do",
        arguments: [
            ("{\n namespaces: {} }", ":2: namespaces must name a namespace"),
            ("{\n\n  namespace: {} }", ":3: namespace is not a setting; did you mean \"namespaces\"?"),
            (
                "{\n namespaces: { a: { flag: 'x' } } }",
                ":2: namespaces.a.flag is not a setting; did you mean \"flags\"?"
            ),
            ("{\n namespaces: { a: { flags: 1 } } }", ":2: namespaces.a.flags must be the name of a member"),
            ("{ hosts: ['localhost:80'] }", ":1: hosts must be an array of host names without a port"),
            ("{ hosts: ['::1'] }", ":1: hosts must be"), ("{ origins: ['https://a/'] }", ":1: origins must be"),
            ("{ origins: ['null'] }", ":1: origins must be"), ("{ origins: ['*'] }", ":1: origins must be"),
            ("{\n access: 'all', namespaces: { a: {} } }", ":2: access must be \"anyone\""),
            ("{ access: 'anyone',\n tokenFile: '/x' }", ":1: access cannot be combined"),
            ("{ limits: { connections: 0 } }", ":1: limits.connections must be a whole number from 1"),
            ("{ hosts: 'a' }", ":1: hosts must be an array"), ("{ hosts: [] }", ":1: hosts must name a host"),
            ("{\n namespaces: { shop: {} } }", ":2: namespaces.shop serves nothing; add flags"),
            (
                "{ namespaces: { 'a/..': { config: true } } }",
                ":1: namespaces.a/.. must have a name of lower-case letters"
            ),
            ("{ namespaces: { 'caf\u{e9}': { config: true } } }", "must have a name of lower-case letters"),
            ("{ listen: 'localhost:80' }", ":1: listen must be 127.0.0.1:PORT or an absolute path"),
            ("{ listen: '127.0.0.1:x' }", ":1: listen must be"), ("{ listen: 80 }", ":1: listen must be"),
            ("[]", "must be an object"), ("{", ":1: "),
        ])
    func errors(text: String, expected: String) throws {
        let error = #expect(throws: GatewaySettingsError.self) {
            try GatewaySettings.parse(Array(text.utf8), "http.json")
        }
        #expect(error?.description.hasPrefix("http.json:") == true)
        #expect(error?.description.contains(expected) == true, "\(error?.description ?? "")")
    }

    private static func settings(_ members: String) throws -> GatewaySettings {
        try GatewaySettings.parse(Array("{ namespaces: { a: { config: true } }, \(members) }".utf8), "http.json")
    }

    @Test("a check finds settings with which the gateway cannot start, and names what the units must provide")
    func check() throws {
        #expect(try Self.settings("access: 'anyone'").condition() == nil)
        #expect(try Self.settings("listen: '[::1]:80', access: 'anyone'").condition() == nil)
        #expect(try Self.settings("listen: '/run/a.sock'").condition() == nil)
        #expect(try Self.settings("").condition()?.description.contains("set \"tokenFile\"") == true)
        let credential = try Self.settings("tokenCredential: 'http'").condition()
        #expect(credential?.description.contains("LoadCredential=http:FILE") == true)
        for members in ["listen: '0.0.0.0:80', access: 'anyone'", "tokenFile: '/nonexistent/token'"] {
            let settings = try Self.settings(members)
            #expect(throws: GatewaySettingsError.self) { try settings.condition() }
        }
    }

    @Test("a socket without permissions needs a token, as a port does")
    func abstractSocket() throws {
        let abstract = try SocketAddress(unixDomainSocketPath: "\0larder")
        #expect(throws: GatewaySettingsError.self) { try Self.settings("").check(abstract) }
        try Self.settings("access: 'anyone'").check(abstract)
        try Self.settings("").check(SocketAddress(unixDomainSocketPath: "/run/a.sock"))
    }

    @Test("the limit of open files limits the connections")
    func descriptors() throws {
        let settings = try Self.settings("limits: { connections: 1000 }")
        #expect(settings.connections(withDescriptors: 65_536) == 1000)
        #expect(settings.connections(withDescriptors: 1024) == 958)
        #expect(settings.connections(withDescriptors: 0) == 1)
    }
}
