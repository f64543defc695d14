import LarderHTTPGateway
import Testing

@Suite("Settings of the gateway")
struct GatewaySettingsTests {
    @Test("settings with only a namespace have the defaults")
    func defaults() throws {
        let settings = try GatewaySettings.parse(
            Array("{ namespaces: { shop: { flags: 'switches' } } }".utf8), "http.json")
        #expect(settings.listen == "127.0.0.1:8016" && settings.access == .socketPermissions)
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
            ("{ hosts: 'a' }", ":1: hosts must be an array"), ("[]", "must be an object"), ("{", ":1: "),
        ])
    func errors(text: String, expected: String) throws {
        let error = #expect(throws: GatewaySettingsError.self) {
            try GatewaySettings.parse(Array(text.utf8), "http.json")
        }
        #expect(error?.description.hasPrefix("http.json:") == true)
        #expect(error?.description.contains(expected) == true, "\(error?.description ?? "")")
    }
}
