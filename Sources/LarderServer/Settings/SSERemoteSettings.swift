public import LarderConfig

/// `namespaces.NAME.remote.sse`.
///
/// The values of headers may be secrets: they appear in no description and no error.
public struct SSERemoteSettings: Sendable, Equatable {
    /// `url`: the stream, http or https, with a host and without a user name or password.
    public var url: String
    /// `pollUrl`: where the whole document can be asked for. Default: a new stream begins with it.
    public var pollURL: String?
    /// `intervalSeconds`: the time between two questions for the whole document, which find what the stream lost, 0.1 s to
    /// 30 days. Default: 300 s.
    public var interval = Duration.seconds(300)
    /// `heartbeatSeconds`: the longest silence before the stream is replaced, 0.1 s to 1 hour. Default: 60 s.
    public var heartbeat = Duration.seconds(60)
    /// `timeoutSeconds`: the time for one question, for the stream to begin, and for its first document, 0.1 s to
    /// 10 minutes. Default: 10 s.
    public var timeout = Duration.seconds(10)
    /// `patchEvents`: the types of the events whose data is a merge patch. Default: "patch".
    public var patchEvents = ["patch"]
    /// `versionPath`: where the document says its version, a dotted path or a JSON Pointer. Default: "/version"; `null`
    /// in the file, and `nil` here, when it says none.
    public var versionPath: String? = "/version"
    /// `headers`, `tokenFile` or `tokenCredential`, `certificateAuthority`, `certificate` and `privateKey`.
    public var access = HTTPAccess()

    /// A stream at a URL, with every other setting at its default.
    public init(url: String) {
        self.url = url
    }
}

extension SSERemoteSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "url", "pollUrl", "intervalSeconds", "heartbeatSeconds", "timeoutSeconds", "patchEvents", "versionPath",
            ] + HTTPAccess.settings)
        guard let url = try reader.url("url") else {
            throw reader.failure(nil, "needs \"url\", such as \"https://config.example.org/web/events\"")
        }
        self.url = url
        pollURL = try reader.url("pollUrl")
        interval = try reader.seconds("intervalSeconds", in: 0.1...2_592_000) ?? interval
        heartbeat = try reader.seconds("heartbeatSeconds", in: 0.1...3600) ?? heartbeat
        timeout = try reader.seconds("timeoutSeconds", in: 0.1...600) ?? timeout
        patchEvents =
            try reader.strings("patchEvents", expected: "names of event types in quotes") {
                !$0.isEmpty && $0 != "message" && !$0.contains { $0.isNewline }
            } ?? patchEvents
        versionPath = try reader.versionPath()
        access = try HTTPAccess(reader, for: url)
    }
}
