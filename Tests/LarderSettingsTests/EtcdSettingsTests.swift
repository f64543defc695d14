import LarderConfig
@testable import LarderConfigSources
import LarderSettings
import LarderUpstream
import Testing

@Suite("Etcd settings")
struct EtcdSettingsTests {
    private func etcd(_ members: String) throws -> EtcdSourceSettings {
        let settings = try settings("{namespaces: {a: {remote: {etcd: {\(members)}}}}}")
        guard case .etcd(let etcd) = settings.namespaces["a"]?.remote else {
            throw SettingsTestFailure.noEtcd
        }
        return etcd
    }

    private enum SettingsTestFailure: Error { case noEtcd }

    @Test("all etcd settings except endpoints and keys have defaults")
    func defaults() throws {
        let etcd = try etcd("endpoints: ['http://h:2379'], prefix: '/c/'")
        #expect(
            etcd
                == EtcdSourceSettings(
                    endpoints: ["http://h:2379"], keys: .prefix("/c/"), format: .json, user: nil, tls: TLSFiles(),
                    timeout: .seconds(10), interval: .seconds(300)))
    }

    @Test("every etcd setting is read")
    func everything() throws {
        let etcd = try etcd(
            """
            endpoints: ['https://a:2379', 'https://b:2379/'], prefix: 'shop', format: 'auto', user: 'larder',
            passwordFile: '/p', timeoutSeconds: 3, intervalSeconds: 60, reconnectSplaySeconds: 12,
            firstFetchSplaySeconds: 0.5, certificateAuthority: '/ca', certificate: '/c', privateKey: '/k'
            """)
        #expect(etcd.endpoints == ["https://a:2379", "https://b:2379/"])
        #expect(etcd.format == .auto)
        #expect(etcd.user == .init(name: "larder", password: .file("/p")))
        #expect(etcd.tls == TLSFiles(certificateAuthority: "/ca", certificate: "/c", privateKey: "/k"))
        #expect(etcd.timeout == .seconds(3) && etcd.interval == .seconds(60))
        #expect(etcd.reconnectWindow == .seconds(12) && etcd.firstFetchWindow == .seconds(0.5))
        let other = try self.etcd(
            "endpoints: ['http://a'], key: '/doc', user: 'u', passwordCredential: 'etcd-password'")
        #expect(other.keys == .key("/doc"))
        let several = try self.etcd("endpoints: ['http://a'], prefixes: ['/common', '/hosts/a/'], format: 'text'")
        #expect(several.keys == .prefixes(["/common/", "/hosts/a/"]))
        #expect(several.location == "http://a prefixes /common/,/hosts/a/")
        #expect(other.user?.password == .systemd("etcd-password"))
    }

    @Test(
        "a slash is appended to a prefix, unless it ends with one or is empty",
        arguments: [("/c", "/c/"), ("/c/", "/c/"), ("", ""), ("shop", "shop/")])
    func prefixes(given: String, expected: String) throws {
        #expect(try etcd("endpoints: ['http://h'], prefix: '\(given)'").keys == .prefix(expected))
    }

    @Test(
        "an invalid etcd setting is reported with its name and a fix",
        arguments: [
            ("prefix: '/c'", " needs \"endpoints\""),
            ("endpoints: [], prefix: '/c'", ".endpoints needs \"endpoints\""),
            ("endpoints: 'http://h', prefix: '/c'", ".endpoints must be an array of strings"),
            ("endpoints: ['h:2379'], prefix: '/c'", ".endpoints is invalid: element 1 is not an absolute http"),
            ("endpoints: ['http://h', 'http://h/v3'], prefix: '/c'", "element 2 must end after the host and port"),
            ("endpoints: ['http://h?x=1'], prefix: '/c'", "element 1 must end after"),
            ("endpoints: ['http://h']", " names no keys; give \"prefix\""),
            ("endpoints: ['http://h'], prefix: '/c', prefixes: ['/d']", " has both \"prefix\" and \"prefixes\""),
            ("endpoints: ['http://h'], prefixes: []", ".prefixes must have 1 to 64 prefixes, not 0"),
            (
                "endpoints: ['http://h'], prefixes: ['/a', '/a/b']",
                ".prefixes is invalid: element 2 begins with element 1"
            ),
            (
                "endpoints: ['http://h'], prefixes: ['/a/b/', '/a']",
                ".prefixes is invalid: element 1 begins with element 2"
            ),
            (
                "endpoints: ['http://h'], prefixes: ['/a', '/a/']",
                ".prefixes is invalid: element 2 begins with element 1"
            ),
            ("endpoints: ['http://h'], prefixes: ['/a', 5]", ".prefixes[1] must be a text without NUL"),
            ("endpoints: ['http://h'], prefix: '/c', key: '/d'", " has both \"prefix\" and \"key\""),
            ("endpoints: ['http://h'], key: ''", ".key must be a text of at least one character"),
            ("endpoints: ['http://h'], key: '/d', format: 'text'", ".format applies only to \"prefix\""),
            (
                "endpoints: ['http://h'], prefix: '/c', format: 'yaml'",
                ".format must be one of \"json\", \"text\", \"auto\""
            ),
            ("endpoints: ['http://h'], prefix: '/c', user: 'u'", ".user needs a password"),
            ("endpoints: ['http://h'], prefix: '/c', passwordFile: '/p'", " has a password but no \"user\""),
            (
                "endpoints: ['http://h'], prefix: '/c', user: 'u', passwordFile: '/p', passwordCredential: 'p'",
                ".passwordCredential cannot be combined with \"passwordFile\""
            ),
            (
                "endpoints: ['http://h'], prefix: '/c', user: 'u', passwordCredential: '../p'",
                ".passwordCredential must be the name of a credential"
            ),
            (
                "endpoints: ['https://h'], prefix: '/c', certificate: '/c'",
                ".certificate needs \"privateKey\" too"
            ),
            (
                "endpoints: ['http://h'], prefix: '/c', certificateAuthority: '/c'",
                ".endpoints must begin with \"https://\""
            ),
            ("endpoints: ['http://h'], prefix: '/c', timeoutSeconds: 0", ".timeoutSeconds must be a number of seconds"),
            ("endpoints: ['http://h'], prefix: '/c', password: 'x'", ".password is not a setting"),
        ])
    func refused(members: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try etcd(members) }
        #expect(error?.description.contains(message) == true, "\(error?.description ?? "")")
    }

    @Test("a password in an endpoint is refused and not shown")
    func secrets() {
        let error = #expect(throws: SettingsError.self) {
            try etcd("endpoints: ['http://u:hidden@h'], prefix: '/c'")
        }
        #expect(error?.description.contains("contains a user name or password; remove it, and give \"user\"") == true)
        #expect(error?.description.contains("hidden") == false)
    }

    @Test("etcd settings together with another upstream are refused")
    func two() {
        let error = #expect(throws: SettingsError.self) {
            try settings(
                "{namespaces: {a: {remote: {etcd: {endpoints: ['http://h'], prefix: ''}, file: {path: '/x'}}}}}")
        }
        #expect(error?.description.contains("has more than one source") == true)
    }
}
