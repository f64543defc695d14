internal import JSON
public import LarderConfig

/// `namespaces.NAME.remote.http`.
///
/// The values of headers and the body may be secrets: they appear in no description and no error.
public struct HTTPRemoteSettings: Sendable, Equatable {
    /// `url`: http or https, with a host and without a user name or password.
    public var url: String
    /// `method` and `body`: what is sent by POST, a text or a JSON value; nil for a GET.
    public var body: [UInt8]?
    /// `answerPath`: where in the answer the document is, a dotted path or a JSON Pointer. Default: it is the answer.
    public var answerPath: String?
    /// `intervalSeconds`: the time between two requests, 0.1 s to 30 days. Default: 60 s.
    public var interval = Duration.seconds(60)
    /// `timeoutSeconds`: the time for one request, 0.1 s to 10 minutes. Default: 10 s.
    public var timeout = Duration.seconds(10)
    /// `longPoll`: how the origin is asked to answer only when it has something new, for 1 s to 1 hour. Default: not at all.
    public var longPoll: NamespaceConfiguration.HTTP.LongPoll?
    /// `staleIfErrorSeconds`: how long what is held counts as stale when the origin fails, before the state becomes `failed`;
    /// up to a year. Default: for ever.
    public var staleIfError: Duration?
    /// `versionPath`: where the document says its version, a dotted path or a JSON Pointer. Default: "/version"; `null`
    /// in the file, and `nil` here, when it says none.
    public var versionPath: String? = "/version"
    /// `headers`, `tokenFile` or `tokenCredential`, `certificateAuthority`, `certificate` and `privateKey`.
    public var access = HTTPAccess()

    /// A document at a URL, with every other setting at its default.
    public init(url: String) {
        self.url = url
    }
}

extension HTTPRemoteSettings: CustomStringConvertible, CustomDebugStringConvertible {
    /// The settings without the body and the values of the headers.
    public var description: String {
        "HTTPRemoteSettings(url: \(url), method: \(body == nil ? "GET" : "POST"), answerPath: \(answerPath ?? "none"), "
            + "interval: \(interval), timeout: \(timeout), longPoll: \(longPoll.map { "\($0.waitSeconds) s" } ?? "no"), "
            + "versionPath: \(versionPath ?? "none"), access: \(access))"
    }

    /// The same as ``description``: what prints a value that contains this one asks for it.
    public var debugDescription: String { description }
}

extension HTTPRemoteSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "url", "method", "body", "answerPath", "intervalSeconds", "timeoutSeconds", "longPoll",
                "staleIfErrorSeconds", "versionPath",
            ] + HTTPAccess.settings)
        guard let url = try reader.url("url") else {
            throw reader.failure(nil, "needs \"url\", such as \"https://config.example.org/web.json\"")
        }
        self.url = url
        body = try Self.body(reader)
        answerPath = try reader.documentPath("answerPath", such: "\"/data/config\"")
        interval = try reader.seconds("intervalSeconds", in: 0.1...2_592_000) ?? interval
        timeout = try reader.seconds("timeoutSeconds", in: 0.1...600) ?? timeout
        longPoll = try reader.section("longPoll", NamespaceConfiguration.HTTP.LongPoll.init)
        staleIfError = try reader.seconds("staleIfErrorSeconds", in: 0...31_536_000)
        versionPath = try reader.versionPath()
        access = try HTTPAccess(reader, for: url)
    }

    private static func body(_ reader: SettingsReader) throws(SettingsError) -> [UInt8]? {
        let method = try reader.choice("method", ["GET", "POST"])
        guard method == "POST" else {
            guard reader.has("body") else { return nil }
            throw reader.failure("body", "is only sent by POST; add method: \"POST\"")
        }
        guard let value = reader.value("body") else { return [] }
        if case .string(let text) = value.content { return Array(text.utf8) }
        var writer = JSONWriter()
        guard value.write(to: &writer) else {
            throw reader.failure("body", "holds NaN or Infinity, which JSON does not have; write a text in quotes")
        }
        return writer.bytes
    }
}

extension NamespaceConfiguration.HTTP.LongPoll {
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

extension SettingsValue {
    /// Writes the value as JSON; false where it holds a number that JSON does not have.
    fileprivate func write(to writer: inout JSONWriter) -> Bool {
        switch content {
        case .null: writer.null()
        case .bool(let truth): writer.bool(truth)
        case .string(let text): writer.string(text)
        case .number(let number, let text):
            guard number.isFinite else { return false }
            // Most numbers keep their text; what only JSON5 can write, such as 0x10 and .5, is written anew.
            if let plain = try? JSONValue(parsing: Array(text.utf8)), plain.kind == .number {
                writer.value(plain)
            } else if let integer = Int(exactly: number) {
                writer.int(integer)
            } else {
                writer.double(number)
            }
        case .array(let elements):
            writer.beginArray()
            for element in elements where !element.write(to: &writer) { return false }
            writer.endArray()
        case .object(let members):
            writer.beginObject()
            for member in members {
                writer.name(member.name)
                if !member.value.write(to: &writer) { return false }
            }
            writer.endObject()
        }
        return true
    }
}
