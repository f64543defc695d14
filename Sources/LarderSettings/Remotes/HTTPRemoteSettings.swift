import LarderConfigSources
import LarderJSON
import LarderJSON5
import LarderUpstream

/// `namespaces.NAME.remote.http`. `limits.documentBytes` limits the size of the document.
extension HTTPSourceSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "url", "method", "body", "responsePath", "partialData", "intervalSeconds", "timeoutSeconds", "longPoll",
                "firstFetchSplaySeconds", "staleIfErrorSeconds", "versionPath", "versionRequired", "reportToSource",
            ] + HTTPAccess.settings)
        guard let url = try reader.url("url") else {
            throw reader.failure(nil, "needs \"url\", such as \"https://config.example.org/web.json\"")
        }
        self.init(url: url)
        body = try Self.body(reader)
        responsePath = try reader.documentPath("responsePath", such: "\"/data/config\"")
        partialData = try reader.choice("partialData") ?? partialData
        interval = try reader.seconds("intervalSeconds", in: 0.1...2_592_000) ?? interval
        timeout = try reader.seconds("timeoutSeconds", in: 0.1...600) ?? timeout
        firstFetchWindow = try reader.seconds("firstFetchSplaySeconds", in: 0...86_400) ?? firstFetchWindow
        longPoll = try reader.section("longPoll", LongPoll.init)
        staleIfError = try reader.seconds("staleIfErrorSeconds", in: 0...31_536_000)
        versionPath = try reader.versionPath()
        versionRequirement = try reader.versionRequirement()
        reportsToSource = try reader.truth("reportToSource") ?? false
        access = try HTTPAccess(reader, for: url)
    }

    private static func body(_ reader: SettingsReader) throws(SettingsError) -> [UInt8]? {
        enum Method: String, CaseIterable { case get = "GET", post = "POST" }
        guard try reader.choice("method") == Method.post else {
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

/// Checks URLs and header fields from the settings.
enum HTTPURLCheck {
    /// Returns why a URL is invalid and what to do, as a continuation of the path of the setting; nil if it is valid.
    ///
    /// A user name or password is rejected (RFC 9110, section 4.2.4), because the URL appears in logs and in
    /// `config.status`.
    ///
    /// - Parameter hasUser: whether the settings have a user and a password beside the URL, and no headers
    static func problem(of url: String, hasUser: Bool = false) -> String? {
        // No message shows the URL, because it may contain a password.
        do throws(InvalidURL) {
            _ = try FetchURL(parsing: url)
        } catch {
            return (hasUser ? error.besideUser : error).reason
        }
        if url.contains("#") { return "must not contain a fragment; remove the \"#\" and everything after it" }
        guard let bad = url.unicodeScalars.first(where: { !isURLCharacter($0) }) else { return nil }
        return "must not contain \"\(JSON5Shown.printable(bad))\"; write it percent-encoded (RFC 3986)"
    }

    /// Whether a URL can contain the character (RFC 3986): any printable ASCII character except the space, the backtick
    /// and `"<>\^{|}`.
    private static func isURLCharacter(_ scalar: Unicode.Scalar) -> Bool {
        guard scalar.value > 0x20, scalar.value < 0x7f else { return false }
        return !"\"<>\\^`{|}".unicodeScalars.contains(scalar)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    /// Whether a name is a token (RFC 9110, section 5.6.2).
    static func isHeaderName(_ name: String) -> Bool {
        !name.isEmpty
            && name.utf8.allSatisfy { byte in
                isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
                    || "!#$%&'*+-.^_`|~".utf8.contains(byte)
            }
    }

    /// Whether a value is a field value (RFC 9110, section 5.5) without leading and trailing white space, which a
    /// receiver would strip.
    static func isHeaderValue(_ value: String) -> Bool {
        guard value.first != " ", value.first != "\t", value.last != " ", value.last != "\t" else { return false }
        return value.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7f) || $0 == UInt8(ascii: "\t") }
    }
}
