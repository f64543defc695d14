import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderUpstream

/// `namespaces.NAME.remote`: the remote source of a namespace.
extension RemoteSourceSettings {
    private static let kinds = ["http", "sse", "file", "etcd"]

    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: Self.kinds)
        let http = try reader.section("http", HTTPSourceSettings.init).map(Self.http)
        let sse = try reader.section("sse", SSESourceSettings.init).map(Self.sse)
        let file = try reader.section("file", FileSourceSettings.init).map(Self.file)
        let etcd = try reader.section("etcd", EtcdSourceSettings.init).map(Self.etcd)
        let given = [http, sse, file, etcd].compactMap { $0 }
        let kinds = Self.kinds.map { "\"\($0)\"" }.joined(separator: ", ")
        guard let upstream = given.first else {
            throw reader.failure(nil, "has no source; give one of \(kinds), or remove it")
        }
        guard given.count == 1 else { throw reader.failure(nil, "has more than one source; keep one of \(kinds)") }
        self = upstream
    }
}

/// `namespaces.NAME.remote.file`.
extension FileSourceSettings {
    init(_ value: SettingsValue, _ settingsPath: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: settingsPath, knowing: ["path"])
        guard let path = try reader.path("path") else { throw reader.failure(nil, "needs \"path\", an absolute path") }
        self.init(path: path)
    }
}

extension SettingsReader {
    /// Reads the URL of a document or a stream.
    func url(_ name: String) throws(SettingsError) -> String? {
        guard let text = try string(name, expected: "a URL in quotes", where: { _ in true }) else { return nil }
        if let problem = HTTPURLCheck.problem(of: text) { throw failure(name, problem) }
        return text
    }

    /// Reads a path in a document, in dotted form or as a JSON Pointer (RFC 6901).
    func documentPath(_ name: String, such example: String) throws(SettingsError) -> JSONPath? {
        let text = try string(name, expected: "a path such as \(example)", where: JSONPath.isSetting)
        return try? text.map(JSONPath.init(parsing:))
    }

    /// Reads `versionPath`, the path of the version in the document. Returns `/version` if the setting is missing, and
    /// nil if it is `null`.
    func versionPath() throws(SettingsError) -> JSONPath? {
        let given = try documentPath("versionPath", such: "\"meta.version\" or \"/meta/version\"")
        return isNull("versionPath") ? nil : given ?? JSONPath(["version"])
    }

    /// Returns which documents must have a version. If `versionRequired` is true, all documents must; if it is false,
    /// none. If `versionRequired` is missing, all documents must if `versionPath` is set; otherwise only those that
    /// follow a document with a version.
    func versionRequirement() throws(SettingsError) -> VersionRequirement {
        let isRequired = try truth("versionRequired")
        if isRequired == true, isNull("versionPath") {
            throw failure("versionRequired", "must not be true if versionPath is null; remove one of them")
        }
        return switch isRequired {
        case true?: .always
        case false?: .never
        case nil: has("versionPath") ? .always : .onceSeen
        }
    }
}

extension JSONPath {
    /// Whether a text is a nonempty path.
    static func isSetting(_ text: String) -> Bool { !text.isEmpty && (try? JSONPath(parsing: text)) != nil }
}

/// `namespaces.NAME.remote.sse`. `limits.documentBytes` limits the size of the document.
extension SSESourceSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "url", "pollUrl", "intervalSeconds", "reconnectSplaySeconds", "firstFetchSplaySeconds",
                "heartbeatSeconds", "timeoutSeconds", "patchEvents", "versionPath", "versionRequired", "reportToSource",
            ] + HTTPAccess.settings)
        guard let url = try reader.url("url") else {
            throw reader.failure(nil, "needs \"url\", such as \"https://config.example.org/web/events\"")
        }
        self.init(url: url)
        pollURL = try reader.url("pollUrl")
        interval = try reader.seconds("intervalSeconds", in: 0.1...2_592_000) ?? interval
        reconnectWindow = try reader.seconds("reconnectSplaySeconds", in: 0...86_400)
        firstFetchWindow = try reader.seconds("firstFetchSplaySeconds", in: 0...86_400) ?? firstFetchWindow
        heartbeat = try reader.seconds("heartbeatSeconds", in: 0.1...3600) ?? heartbeat
        timeout = try reader.seconds("timeoutSeconds", in: 0.1...600) ?? timeout
        patchEvents =
            try reader.strings("patchEvents", each: "the name of an event type other than \"message\", in quotes") {
                !$0.isEmpty && $0 != "message" && !$0.contains { $0.isNewline }
            } ?? patchEvents
        versionPath = try reader.versionPath()
        versionRequirement = try reader.versionRequirement()
        reportsToSource = try reader.truth("reportToSource") ?? false
        access = try HTTPAccess(reader, for: url)
    }
}
