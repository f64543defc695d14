import LarderConfig

/// `namespaces.NAME.remote.sse`. The limit on the document's size is the agent's, `limits.documentBytes`.
extension NamespaceConfiguration.SSE {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "url", "pollUrl", "intervalSeconds", "heartbeatSeconds", "timeoutSeconds", "patchEvents", "versionPath",
            ] + HTTPAccess.settings)
        guard let url = try reader.url("url") else {
            throw reader.failure(nil, "needs \"url\", such as \"https://config.example.org/web/events\"")
        }
        self.init(url: url)
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
