public import LarderConfig

/// `namespaces.NAME.remote`: the one upstream of a namespace.
public enum RemoteSettings: Sendable, Equatable {
    /// `http`: a document that is fetched again and again.
    case http(HTTPRemoteSettings)
    /// `file`: a document in the file system, in one file or several.
    case file(FileRemoteSettings)
    /// `etcd`: keys of an etcd cluster.
    case etcd(NamespaceConfiguration.Etcd)
}

/// `namespaces.NAME.remote.file`.
public struct FileRemoteSettings: Sendable, Equatable {
    /// `path`: the file, or the directory whose `*.json` files are merged in the order of their names. An absolute path.
    public var path: String

    /// A file or directory as the upstream.
    public init(path: String) {
        self.path = path
    }
}

/// `namespaces.NAME.remote.http`.
///
/// The values of ``headers`` may be secrets: they appear in no description and no error.
public struct HTTPRemoteSettings: Sendable, Equatable {
    /// `url`: http or https, with a host and without a user name or password.
    public var url: String
    /// `intervalSeconds`: the time between two requests, 0.1 s to 30 days. Default: 60 s.
    public var interval = Duration.seconds(60)
    /// `timeoutSeconds`: the time for one request, 0.1 s to 10 minutes. Default: 10 s.
    public var timeout = Duration.seconds(10)
    /// `versionPath`: where the document says its version, a dotted path or a JSON Pointer. Default: "/version"; `null`
    /// in the file, and `nil` here, when it says none.
    public var versionPath: String? = "/version"
    /// `headers`: sent with every request, by their names as written.
    public var headers: [String: String] = [:]

    /// A document at a URL, with every other setting at its default.
    public init(url: String) {
        self.url = url
    }
}

extension HTTPRemoteSettings: CustomStringConvertible, CustomDebugStringConvertible {
    /// The settings without the values of the headers.
    public var description: String {
        let names = headers.keys.sorted().joined(separator: ", ")
        return "HTTPRemoteSettings(url: \(url), interval: \(interval), timeout: \(timeout), "
            + "versionPath: \(versionPath ?? "none"), headers: [\(names)])"
    }

    /// The same as ``description``: what prints a value that contains this one asks for it.
    public var debugDescription: String { description }
}

extension RemoteSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: ["http", "file", "etcd"])
        let given = [
            try reader.section("http", HTTPRemoteSettings.init).map(RemoteSettings.http),
            try reader.section("file", FileRemoteSettings.init).map(RemoteSettings.file),
            try reader.section("etcd", NamespaceConfiguration.Etcd.init).map(RemoteSettings.etcd),
        ].compactMap(\.self)
        let names = "\"http\", \"file\" or \"etcd\""
        guard let first = given.first else {
            throw reader.failure(nil, "names no upstream; give \(names), or remove it")
        }
        guard given.count == 1 else { throw reader.failure(nil, "names two upstreams; keep one of \(names)") }
        self = first
    }
}

extension FileRemoteSettings {
    init(_ value: SettingsValue, _ settingsPath: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: settingsPath, knowing: ["path"])
        guard let path = try reader.path("path") else { throw reader.failure(nil, "needs \"path\", an absolute path") }
        self.path = path
    }
}

extension HTTPRemoteSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path, knowing: ["url", "intervalSeconds", "timeoutSeconds", "versionPath", "headers"])
        guard let text = try reader.string("url", expected: "a URL in quotes", where: { _ in true }) else {
            throw reader.failure(nil, "needs \"url\", such as \"https://config.example.org/web.json\"")
        }
        if let problem = HTTPURLCheck.problem(of: text) { throw reader.failure("url", problem) }
        url = text
        interval = try reader.seconds("intervalSeconds", in: 0.1...2_592_000) ?? interval
        timeout = try reader.seconds("timeoutSeconds", in: 0.1...600) ?? timeout
        let given = try reader.string(
            "versionPath", expected: "a path such as \"meta.version\" or \"/meta/version\"", where: Self.isPath)
        versionPath = reader.isNull("versionPath") ? nil : given ?? versionPath
        headers = try reader.section("headers", Self.headers) ?? headers
    }

    /// A dotted path, or a pointer whose escapes are those of RFC 6901.
    private static func isPath(_ text: String) -> Bool {
        guard text.hasPrefix("/") else {
            return text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { !$0.isEmpty }
        }
        let pieces = text.split(separator: "~", omittingEmptySubsequences: false).dropFirst()
        return pieces.allSatisfy { $0.hasPrefix("0") || $0.hasPrefix("1") }
    }

    private static func headers(
        _ value: SettingsValue, _ path: SettingsPath
    ) throws(SettingsError) -> [String: String] {
        let reader = try SettingsReader(value, at: path, knowing: nil)
        var headers: [String: String] = [:]
        for name in reader.names where reader.has(name) {
            guard HTTPURLCheck.isHeaderName(name) else {
                throw reader.failure(name, "is no name of a header; use letters, digits and \"-\"")
            }
            headers[name] = try headerValue(name, reader)
        }
        return headers
    }

    /// A header's value. The error must not show it, so the checks are not the reader's own.
    private static func headerValue(_ name: String, _ reader: SettingsReader) throws(SettingsError) -> String {
        guard let value = reader.unshownString(name) else { throw reader.failure(name, "must be a string in quotes") }
        guard HTTPURLCheck.isHeaderValue(value) else {
            throw reader.failure(
                name, "must not hold line breaks or other control characters, or spaces at its beginning or end")
        }
        return value
    }
}
