import Foundation
import Glibc
import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderConfig
import LarderServer
import LarderSettings
import LarderUpstream
import Logging
import TestSupport
import Testing

/// Parses settings.
func settings(_ text: String) throws(SettingsError) -> Settings {
    try Settings(parsing: Array(text.utf8))
}

@Suite("Settings")
struct SettingsTests {
    @Test("with an empty object, all settings have their defaults")
    func defaults() throws {
        let defaults = try settings("{}")
        #expect(defaults == Settings())
        #expect(defaults.socket.path == nil)
        #expect(defaults.socket.mode == 0o660)
        #expect(defaults.socket.group == nil)
        #expect(defaults.stateDirectory == nil)
        #expect(defaults.cacheDirectory == nil)
        #expect(defaults.logLevel == .info)
        #expect(defaults.current.isEnabled && defaults.current.mode == 0o640)
        #expect(defaults.service.idleExitMinutes == nil)
        #expect(defaults.limits.connections == 16384)
        #expect(defaults.limits.subscriptionsPerConnection == 64)
        #expect(defaults.limits.requestsInFlightPerConnection == 64)
        #expect(defaults.limits.connectionsPerUser == nil)
        #expect(defaults.limits.subscriptionsPerUser == 65536)
        #expect(defaults.limits.requestsInFlightPerUser == 8192)
        #expect(defaults.limits.leasesPerUser == 65536)
        #expect(defaults.limits.queuedBytesPerUser == 268_435_456)
        #expect(defaults.limits.lineBytes == 1_048_576)
        #expect(defaults.documentBytes == 16_777_216)
        #expect(defaults.limits.sendTimeout == .seconds(30))
        let expected = NamespaceConfiguration(name: "default", maximumDeletion: 90, isHostDirectoryNamed: false)
        #expect(defaults.namespaces == ["default": expected])
        #expect(defaults.namespaces["default"]?.durability == .full)
        #expect(defaults.namespaces["default"]?.hostDirectory == nil)
        #expect(defaults.namespaces["default"]?.remote == nil)
    }

    @Test("every general setting is read")
    func everything() throws {
        let all = try settings(
            #"""
            // The settings of a host in the web tier.
            {
              socket: { path: '/run/larder/web.sock', mode: "0600", group: "www-data" },
              state: { directory: "/srv/larder/state" },
              cache: { directory: "/srv/larder/cache" },
              log: { level: "debug" },
              current: { enabled: false, mode: "644" },
              service: { idleExitMinutes: 15 },
              limits: {
                connections: 10, subscriptionsPerConnection: 20, requestsInFlightPerConnection: 30,
                connectionsPerUser: 5, subscriptionsPerUser: 40, requestsInFlightPerUser: 50, queuedBytesPerUser: 2e6,
                leasesPerUser: 60, lineBytes: 65536, documentBytes: 1e6, sendTimeoutSeconds: 2.5, /* generous */
              },
              namespaces: {
                "web.v1": {
                  durability: "relaxed",
                  host: { directory: "/etc/larder/web.d" },
                  remote: {
                    http: {
                      url: "https://config.example.org:8443/web?tier=a",
                      intervalSeconds: 5, timeoutSeconds: 0.5, versionPath: "meta.version",
                      headers: { Authorization: "Bearer secret" },
                    },
                  },
                },
                mirror: { remote: { file: { path: "/etc/config/..data" } } },
                bare: {},
                named: null,
              },
            }
            """#)
        #expect(all.socket.path == "/run/larder/web.sock")
        #expect(all.socket.mode == 0o600)
        #expect(all.socket.group == "www-data")
        #expect(all.stateDirectory == "/srv/larder/state")
        #expect(all.cacheDirectory == "/srv/larder/cache")
        #expect(all.logLevel == .debug)
        #expect(!all.current.isEnabled && all.current.mode == 0o644)
        #expect(all.limits.connections == 10)
        #expect(all.limits.subscriptionsPerConnection == 20)
        #expect(all.limits.requestsInFlightPerConnection == 30)
        #expect(all.limits.connectionsPerUser == 5)
        #expect(all.limits.subscriptionsPerUser == 40)
        #expect(all.limits.requestsInFlightPerUser == 50)
        #expect(all.limits.leasesPerUser == 60)
        #expect(all.limits.queuedBytesPerUser == 2_000_000)
        #expect(all.limits.lineBytes == 65536)
        #expect(all.documentBytes == 1_000_000)
        #expect(all.limits.sendTimeout == .milliseconds(2500))
        #expect(all.namespaces.keys.sorted() == ["bare", "default", "mirror", "named", "web.v1"])
        let web = try #require(all.namespaces["web.v1"])
        #expect(web.durability == .relaxed)
        #expect(web.hostDirectory == "/etc/larder/web.d" && web.isHostDirectoryNamed)
        var http = HTTPSourceSettings(url: "https://config.example.org:8443/web?tier=a")
        http.interval = .seconds(5)
        http.timeout = .milliseconds(500)
        http.versionPath = JSONPath(["meta", "version"])
        http.versionRequirement = .always
        http.access.headers = ["Authorization": "Bearer secret"]
        #expect(web.remote == .http(http))
        #expect(all.namespaces["mirror"]?.remote == .file(FileSourceSettings(path: "/etc/config/..data")))
        for name in ["bare", "named"] {
            let expected = NamespaceConfiguration(name: name, maximumDeletion: 90, isHostDirectoryNamed: false)
            #expect(all.namespaces[name] == expected)
        }
    }

    @Test("secret patterns are dotted paths or JSON Pointers")
    func secretPatterns() throws {
        func patterns(_ text: String) throws -> SecretPatterns? {
            try settings("{namespaces:{a:{secrets:\(text)}}}").namespaces["a"]?.secrets
        }
        #expect(
            try patterns("['db.password', '/a.b/*', 'tls.**']") == SecretPatterns(["db.password", "/a.b/*", "tls.**"]))
        #expect(try patterns("null")?.isEmpty == true)
        for bad in ["a..b", "", "/~2"] {
            let error = #expect(throws: SettingsError.self) { try patterns("['x', '\(bad)']") }
            #expect(
                error?.description
                    == "1:31: namespaces.a.secrets[1] must be a path such as \"db.password\" or \"*.token\", "
                    + "not \"\(bad)\"")
        }
    }

    @Test("defaults, locks and experiments are read, and numbers in values keep their notation")
    func layers() throws {
        let all = try settings(
            #"""
            {namespaces: {a: {
              defaults: { path: "/usr/share/app/defaults.json" },
              locks: ["search.limit", "/a.b/c"],
              experiments: {
                unit: "till-7", member: "experiments",
                overlays: [
                  { name: "blue", salt: "color", percentage: 25.5, values: { color: 'blue', n: 1.50, h: 16, e: 0.5 } },
                  { name: "red", salt: "color", percentage: [25.5, 50], units: ["till-9"], values: { a: [null, true] } },
                  { name: "lab", units: ["till-7"], values: {} },
                ],
              },
            }}}
            """#)
        let namespace = try #require(all.namespaces["a"])
        #expect(namespace.defaultsPath == "/usr/share/app/defaults.json")
        #expect(namespace.locks == [JSONPath(["search", "limit"]), JSONPath(["a.b", "c"])])
        #expect(namespace.experiments.unit == "till-7")
        #expect(namespace.experiments.member == "experiments")
        let blue = try JSONValue(parsing: #"{"color":"blue","n":1.50,"h":16,"e":0.5}"#)
        #expect(
            namespace.experiments.overlays == [
                ExperimentOverlay(name: "blue", salt: "color", share: .init(to: 25.5), values: blue),
                ExperimentOverlay(
                    name: "red", salt: "color", share: .init(from: 25.5, to: 50), units: ["till-9"],
                    values: ["a": [.null, true]]),
                ExperimentOverlay(name: "lab", share: nil, units: ["till-7"], values: .emptyObject),
            ])
        #expect(namespace.experiments.overlays[2].salt == "lab")
    }

    @Test("a setting that is null counts as absent, at every level")
    func nulls() throws {
        #expect(try settings("{socket: null, limits: {connections: null}, log: {level: null}}") == Settings())
    }

    @Test("the version path has a default, and null means no path")
    func versionPath() throws {
        func path(_ member: String) throws -> JSONPath? {
            let all = try settings("{namespaces:{a:{remote:{http:{url:'http://h', \(member)}}}}}")
            guard case .http(let http) = all.namespaces["a"]?.remote else { return JSONPath(["no http"]) }
            return http.versionPath
        }
        #expect(try path("") == JSONPath(["version"]))
        #expect(try path("versionPath: null") == nil)
        #expect(try path("versionPath: '/a~1b/c~0'") == JSONPath(["a/b", "c~"]))
        for bad in ["''", "'.a'", "'a..b'", "'/a~2'", "'/a~'"] {
            #expect(throws: SettingsError.self) { try path("versionPath: \(bad)") }
        }
    }

    @Test(
        "without versionRequired, versions are required always if versionPath is set, otherwise once one was seen",
        arguments: [
            ("", .onceSeen), ("versionPath: null", .onceSeen), ("versionPath: '/version'", .always),
            ("versionRequired: true", .always), ("versionRequired: false", .never),
            ("versionPath: 'v', versionRequired: false", .never), ("versionPath: null, versionRequired: false", .never),
        ] as [(String, VersionRequirement)])
    func versionRequirement(members: String, expected: VersionRequirement) throws {
        let http = try settings("{namespaces:{a:{remote:{http:{url:'http://h', \(members)}}}}}").namespaces["a"]?.remote
        guard case .http(let http) = http else { return #expect(Bool(false)) }
        #expect(http.versionRequirement == expected)
        let sse = try settings("{namespaces:{a:{remote:{sse:{url:'http://h', \(members)}}}}}").namespaces["a"]?.remote
        guard case .sse(let sse) = sse else { return #expect(Bool(false)) }
        #expect(sse.versionRequirement == expected)
    }

    @Test("versionRequired must not be true if versionPath is null")
    func contradictoryVersion() throws {
        let error = #expect(throws: SettingsError.self) {
            try settings(
                "{namespaces:{a:{remote:{http:{url:'http://h', versionPath: null, versionRequired: true}}}}}")
        }
        #expect(error?.description.contains("versionRequired must not be true if versionPath is null") == true)
    }

    @Test("header values do not appear in descriptions of settings or in errors")
    func secrets() throws {
        let all = try settings(
            "{namespaces:{default:{remote:{http:{url:'http://h',headers:{Authorization:'Bearer hunter2'}}}}}}")
        for text in ["\(all)", String(reflecting: all), "\(all.namespaces)"] {
            #expect(!text.contains("hunter2"))
            #expect(text.contains("Authorization"))
        }
        let error = #expect(throws: SettingsError.self) {
            try settings("{namespaces:{default:{remote:{http:{url:'http://h',headers:{Authorization:'hunter2\\n'}}}}}}")
        }
        #expect(error?.member == "namespaces.default.remote.http.headers.Authorization")
        #expect(error?.description.contains("hunter2") == false)
    }

    @Test("history limits have defaults, and their ranges are checked")
    func history() throws {
        func limits(_ text: String) throws -> HistoryLimits? {
            try settings("{namespaces: {default: {history: {\(text)}}}}").namespaces["default"]?.history
        }
        #expect(try limits("") == HistoryLimits(count: 64, days: 30, maximumBytes: 16_777_216))
        #expect(
            try limits("count: 20, days: 0, maximumBytes: 65536")
                == HistoryLimits(count: 20, days: 0, maximumBytes: 65536))
        for bad in ["count: 0", "count: 1001", "days: -1", "days: 0.5", "maximumBytes: 65535", "bytes: 1"] {
            #expect(throws: SettingsError.self) { try limits(bad) }
        }
    }

    @Test("maximumDeletionPercent is 90 by default, and null means no limit")
    func maximumDeletion() throws {
        func percent(_ member: String) throws -> Int? {
            try settings("{namespaces:{a:{\(member)}}}").namespaces["a"]?.maximumDeletion
        }
        #expect(try percent("") == 90)
        #expect(try percent("maximumDeletionPercent: 0") == 0)
        #expect(try percent("maximumDeletionPercent: null") == nil)
        for bad in ["101", "-1", "0.5", "'50'"] {
            #expect(throws: SettingsError.self) { try percent("maximumDeletionPercent: \(bad)") }
        }
    }

    @Test("flags names the member with feature flags; an empty name means the whole document")
    func flags() throws {
        func member(_ text: String) throws -> String? {
            try settings("{namespaces: {default: {\(text)}}}").namespaces["default"]?.flags?.member
        }
        #expect(try member("") == nil)
        #expect(try member("flags: {member: 'features'}") == "features")
        #expect(try member("flags: {member: ''}") == "")
        for bad in ["flags: {}", "flags: {member: 1}", "flags: {path: 'a'}", "flags: 'flags'"] {
            #expect(throws: SettingsError.self) { try member(bad) }
        }
    }

    @Test("a file is read, and its errors begin with path, line and column")
    func file() throws {
        try withTemporaryDirectory { directory in
            let path = "\(directory)/larder.json"
            try Data("{log: {level: 'error'}}".utf8).write(to: URL(fileURLWithPath: path))
            let file = try Settings.load(from: path)
            #expect(file.settings.logLevel == .error)
            #expect(String(decoding: file.text, as: UTF8.self) == "{log: {level: 'error'}}")
            try Data("{\n  log: {level: 'errror'}\n}".utf8).write(to: URL(fileURLWithPath: path))
            let error = #expect(throws: SettingsError.self) { try Settings.load(from: path) }
            #expect(error?.file == path)
            #expect(error?.description.hasPrefix("\(path):2:16: log.level must be one of ") == true)
        }
    }

    @Test("the line of each path in a file is known, for errors of the files that the settings name")
    func pathLines() throws {
        try withTemporaryDirectory { directory in
            let path = "\(directory)/larder.json"
            let text = """
                {
                  state: { directory: '/var/lib/larder' }, // é\r
                  namespaces: { a: { schema: { path: '/etc/a.json' } },\r
                    b: { schema: { enforce: 'warn',
                      path: '/etc/b.json' } }, c: { schema: { path: '/etc/a.json' } } },
                }
                """
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            let lines = try Settings.load(from: path).pathLines
            #expect(lines.place(of: "/var/lib/larder")?.line == 2)
            #expect(lines.place(of: "/etc/a.json")?.line == 3, "the first occurrence")
            #expect(lines.place(of: "/etc/b.json")?.line == 5)
            #expect(lines.place(of: "/etc/c.json") == nil)
            #expect(lines.place(of: "/etc/a.json", in: ["namespaces", "a"])?.line == 3)
            #expect(lines.place(of: "/etc/a.json", in: ["namespaces", "c", "schema"])?.line == 5)
            #expect(lines.place(of: "/etc/a.json", in: ["namespaces", "b"])?.line == 3, "not in the section")
        }
    }

    @Test("a missing settings file has an error code of its own")
    func missing() throws {
        try withTemporaryDirectory { directory in
            let path = "\(directory)/absent.json"
            let error = #expect(throws: SettingsError.self) { try Settings.load(from: path) }
            #expect(error?.code == .fileNotFound)
            #expect(error?.description.hasPrefix("\(path): ") == true)
        }
    }

    @Test("a settings file that is a directory or too large is refused")
    func unusable() throws {
        try withTemporaryDirectory { directory in
            #expect(throws: SettingsError.self) { try Settings.load(from: directory) }
            let path = "\(directory)/large.json"
            try Data(repeating: UInt8(ascii: " "), count: Settings.maxFileBytes + 1)
                .write(to: URL(fileURLWithPath: path))
            let error = #expect(throws: SettingsError.self) { try Settings.load(from: path) }
            #expect(error?.code == .invalid)
        }
    }
}
