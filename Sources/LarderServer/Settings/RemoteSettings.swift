public import LarderConfig

/// `namespaces.NAME.remote`: the one upstream of a namespace.
public enum RemoteSettings: Sendable, Equatable {
    /// `http`: a document that is fetched again and again.
    case http(HTTPRemoteSettings)
    /// `sse`: a document that comes, with its changes, as server-sent events.
    case sse(SSERemoteSettings)
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

extension RemoteSettings {
    private static let kinds = ["http", "sse", "file", "etcd"]

    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: Self.kinds)
        let http = try reader.section("http", HTTPRemoteSettings.init).map(RemoteSettings.http)
        let sse = try reader.section("sse", SSERemoteSettings.init).map(RemoteSettings.sse)
        let file = try reader.section("file", FileRemoteSettings.init).map(RemoteSettings.file)
        let etcd = try reader.section("etcd", NamespaceConfiguration.Etcd.init).map(RemoteSettings.etcd)
        let given = [http, sse, file, etcd].compactMap { $0 }
        let kinds = Self.kinds.map { "\"\($0)\"" }.joined(separator: ", ")
        guard let upstream = given.first else {
            throw reader.failure(nil, "names no upstream; give one of \(kinds), or remove it")
        }
        guard given.count == 1 else { throw reader.failure(nil, "names more than one upstream; keep one of \(kinds)") }
        self = upstream
    }
}

extension FileRemoteSettings {
    init(_ value: SettingsValue, _ settingsPath: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: settingsPath, knowing: ["path"])
        guard let path = try reader.path("path") else { throw reader.failure(nil, "needs \"path\", an absolute path") }
        self.path = path
    }
}

extension SettingsReader {
    /// The address of a document or a stream.
    func url(_ name: String) throws(SettingsError) -> String? {
        guard let text = try string(name, expected: "a URL in quotes", where: { _ in true }) else { return nil }
        if let problem = HTTPURLCheck.problem(of: text) { throw failure(name, problem) }
        return text
    }

    /// A place in a document: a dotted path, or a pointer whose escapes are those of RFC 6901.
    func documentPath(_ name: String, such example: String) throws(SettingsError) -> String? {
        try string(name, expected: "a path such as \(example)") { text in
            guard text.hasPrefix("/") else {
                return text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { !$0.isEmpty }
            }
            let pieces = text.split(separator: "~", omittingEmptySubsequences: false).dropFirst()
            return pieces.allSatisfy { $0.hasPrefix("0") || $0.hasPrefix("1") }
        }
    }

    /// Where the document says its version: "/version" unless something else, or `null`, is said.
    func versionPath() throws(SettingsError) -> String? {
        let given = try documentPath("versionPath", such: "\"meta.version\" or \"/meta/version\"")
        return isNull("versionPath") ? nil : given ?? "/version"
    }
}
