@testable import LarderConfigSources
import LarderJSON
import LarderUpstream
import Testing

@Suite("Identity of the settings of a source")
struct RemoteIdentityTests {
    private static let url = "https://h/a?env=prod"
    private static let http = HTTPSourceSettings(url: url, access: HTTPAccess(headers: ["X-Site": "a", "X-Zone": "b"]))

    private func identity(_ change: (inout HTTPSourceSettings) -> Void) -> String {
        var settings = Self.http
        change(&settings)
        return RemoteSourceSettings.http(settings).identity
    }

    @Test("everything that selects the document of an HTTP source is part of its identity")
    func selection() throws {
        let path = try JSONPath("/data/config")
        let identities = [
            identity { _ in }, identity { $0.url = "https://h/a?env=staging" }, identity { $0.url = "https://h/a" },
            identity { $0.responsePath = path }, identity { $0.versionPath = path }, identity { $0.body = [] },
            identity { $0.body = Array("{}".utf8) }, identity { $0.access.headers["X-Site"] = "b" },
            identity { $0.access.headers["X-Site"] = nil },
            RemoteSourceSettings.sse(SSESourceSettings(url: Self.url, access: Self.http.access)).identity,
            RemoteSourceSettings.file(FileSourceSettings(path: Self.url)).identity,
            RemoteSourceSettings.file(FileSourceSettings(path: Self.url, versionPath: path)).identity,
        ]
        #expect(Set(identities).count == identities.count)
    }

    @Test("settings that differ only in the Unicode normalization of a text are different settings")
    func normalization() {
        let (composed, decomposed) = ("/caf\u{e9}", "/cafe\u{301}")
        #expect(FileSourceSettings(path: composed) != FileSourceSettings(path: decomposed))
        #expect(HTTPAccess(headers: ["X": composed]) != HTTPAccess(headers: ["X": decomposed]))
        #expect(HTTPAccess(token: .file(composed)) != HTTPAccess(token: .file(decomposed)))
        #expect(EtcdSourceSettings.Keys.prefix(composed) != .prefix(decomposed))
        #expect(EtcdSourceSettings.Keys.key(composed) == .key(composed))
    }

    @Test("schedules, limits and credentials are not part of the identity")
    func rest() {
        #expect(
            identity {
                $0.interval = .seconds(5)
                $0.timeout = .seconds(5)
                $0.maximumBytes = 5
                $0.longPoll = .init(waitSeconds: 5)
                $0.access.token = .file("/token")
                $0.access.headers["authorization"] = "Basic eA=="
                $0.access.headers["Cookie"] = "a=b"
            } == identity { _ in })
        #expect(identity { $0.access.headers = ["x-zone": "b", "x-site": "a"] } == identity { _ in })
    }

    @Test("the keys are the identity of an etcd source, whatever the endpoints")
    func etcd() {
        func identity(_ keys: EtcdSourceSettings.Keys, _ endpoints: [String] = ["https://e1"]) -> String {
            RemoteSourceSettings.etcd(EtcdSourceSettings(endpoints: endpoints, keys: keys)).identity
        }
        #expect(identity(.prefix("a/")) == identity(.prefix("a/"), ["https://e2", "https://e3"]))
        #expect(Set([identity(.prefix("a/")), identity(.prefix("b/")), identity(.key("a/"))]).count == 3)
        let lists = [["a/", "b/"], ["b/", "a/"], ["a/"], ["a/b/"]]
        #expect(Set(lists.map { identity(.prefixes($0)) } + [identity(.prefix("a/"))]).count == 5)
    }
}
