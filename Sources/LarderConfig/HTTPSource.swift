import JSON
import LarderUpstream

/// A remote layer fetched over HTTP with conditional requests.
struct HTTPSource: ConfigSource {
    let fetcher: HTTPFetcher
    let configuration: NamespaceConfiguration.HTTP

    var kind: String { "http" }

    var location: String { configuration.location }

    func fetch(
        ifChangedFrom validator: Validator?, on occasion: FetchOccasion
    ) async throws(ConfigError) -> SourceAnswer {
        let request = FetchRequest(
            url: configuration.url, headers: configuration.headers.map { ($0.key, $0.value) }, validator: validator,
            timeouts: FetchTimeouts(idle: configuration.timeout, whole: configuration.timeout),
            maximumBytes: configuration.maximumBytes)
        let response: FetchResponse
        do {
            response = try await fetcher.fetch(request)
        } catch {
            throw ConfigError(
                error.code == .cancelled ? .cancelled : .upstreamFailed, error.message, retryAfter: error.retryAfter)
        }
        switch response {
        case .notModified: return .notModified
        case .document(let answer):
            return .document(
                try await SourceDocument.parse(
                    answer.body, from: location, versionPath: configuration.versionPath, validator: answer.validator))
        }
    }

    func changes() -> AsyncStream<Void>? { nil }
}

extension NamespaceConfiguration.HTTP {
    /// The URL without user information and query, either of which may hold a secret.
    var location: String {
        var text = url[...]
        if let query = text.firstIndex(where: { $0 == "?" || $0 == "#" }) { text = text[..<query] }
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count > 2, let at = parts[2].lastIndex(of: "@") else { return String(text) }
        let host = parts[2][parts[2].index(after: at)...]
        return ([parts[0], parts[1], host] + parts[3...]).joined(separator: "/")
    }
}

extension SourceDocument {
    /// Makes a document with the version that it has at a path, if there is one.
    init(value: JSONValue, versionPath: JSONPath?, validator: Validator?) {
        let found = versionPath.flatMap { value.value(at: $0) }
        let version = (found?.string ?? found?.numberText).map(UpstreamVersion.init)
        self.init(value: value, version: version, validator: validator)
    }

    /// Checks that an answer's body is a configuration. Large documents are parsed away from every actor.
    /// - Throws: `rejected` with what is wrong with the body.
    @concurrent
    static func parse(
        _ body: [UInt8], from location: String, versionPath: JSONPath?, validator: Validator?
    ) async throws(ConfigError) -> SourceDocument {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: body)
        } catch {
            throw ConfigError(.rejected, "\(location) did not answer with JSON: \(error)")
        }
        guard value.kind == .object else {
            throw ConfigError(.rejected, "\(location) answered with \(value.kind); a configuration is a JSON object")
        }
        return SourceDocument(value: value, versionPath: versionPath, validator: validator)
    }
}
