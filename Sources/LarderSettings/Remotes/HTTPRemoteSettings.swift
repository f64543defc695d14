import LarderConfigSources
import LarderJSON
import LarderJSON5

/// `namespaces.NAME.remote.http`. `limits.documentBytes` limits the size of the document.
extension HTTPSourceSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "url", "method", "body", "answerPath", "partialData", "intervalSeconds", "timeoutSeconds", "longPoll",
                "firstFetchSplaySeconds", "staleIfErrorSeconds", "versionPath", "versionRequired",
            ] + HTTPAccess.settings)
        guard let url = try reader.url("url") else {
            throw reader.failure(nil, "needs \"url\", such as \"https://config.example.org/web.json\"")
        }
        self.init(url: url)
        body = try Self.body(reader)
        answerPath = try reader.documentPath("answerPath", such: "\"/data/config\"")
        let handling = try reader.choice("partialData", PartialData.allCases.map(\.rawValue))
        partialData = handling.flatMap { PartialData(rawValue: $0) } ?? partialData
        interval = try reader.seconds("intervalSeconds", in: 0.1...2_592_000) ?? interval
        timeout = try reader.seconds("timeoutSeconds", in: 0.1...600) ?? timeout
        firstFetchWindow = try reader.firstFetchWindow() ?? firstFetchWindow
        longPoll = try reader.section("longPoll", LongPoll.init)
        staleIfError = try reader.seconds("staleIfErrorSeconds", in: 0...31_536_000)
        versionPath = try reader.versionPath()
        versionRequirement = try reader.versionRequirement()
        access = try HTTPAccess(reader, for: url)
    }

    private static func body(_ reader: SettingsReader) throws(SettingsError) -> [UInt8]? {
        let method = try reader.choice("method", ["GET", "POST"])
        guard method == "POST" else {
            guard reader.has("body") else { return nil }
            throw reader.failure("body", "is only sent with POST; add method: \"POST\"")
        }
        guard let value = reader.value("body") else { return [] }
        if case .string(let text) = value.content { return Array(text.utf8) }
        guard let json = value.json else {
            throw reader.failure("body", "contains NaN or Infinity, which JSON does not have; write a string in quotes")
        }
        return Array(json.compactText.utf8)
    }
}

extension HTTPSourceSettings.LongPoll {
    fileprivate init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: ["waitSeconds", "queryMember"])
        guard let waitSeconds = try reader.integer("waitSeconds", in: 1...3600) else {
            throw reader.failure(nil, "needs \"waitSeconds\", such as 60")
        }
        let queryMember = try reader.string("queryMember", expected: "a name such as \"wait\"") {
            HTTPURLCheck.isHeaderName($0) && !$0.contains("&") && !$0.contains("#") && !$0.contains("%")
        }
        self.init(waitSeconds: waitSeconds, queryMember: queryMember)
    }
}
