import FoundationEssentials
import LarderDigest
import LarderEncoding
import LarderJSON

/// A GraphQL request from the settings, with the bodies to send.
///
/// Follows "GraphQL over HTTP", a working draft of the GraphQL Foundation. Persisted queries follow the protocol that
/// Apollo documents as "automatic persisted queries".
struct GraphQLRequest: Sendable, Equatable {
    /// The alternative bodies of a request that identifies its query by a hash (a persisted query).
    struct Persisted: Sendable, Equatable {
        /// The body with the hash but without the query.
        let hashOnly: [UInt8]
        /// The body with the hash and the query, for a server that does not know the hash. Nil if the settings have no
        /// query.
        let withQuery: [UInt8]?
        /// The body with the query alone, for a server that does not persist queries. Nil if the settings have no
        /// query.
        let withoutHash: [UInt8]?
    }

    /// The media type of a GraphQL response. A body of this type is a GraphQL response even if the HTTP status is an
    /// error.
    static let mediaType = "application/graphql-response+json"
    /// The value of `Accept`.
    static let accept = "\(mediaType), application/json"

    /// The bodies of a persisted query; nil for a GET, and for a POST without `extensions.persistedQuery`.
    let persisted: Persisted?

    /// Returns nil if the request is not a GraphQL request. A GraphQL request has a `query` in its body or URL, or
    /// `extensions.persistedQuery` in its body.
    /// - Parameter body: the body of a POST; nil for a GET
    init?(url: String, body: [UInt8]?) {
        guard let body else {
            guard Self.hasQuery(url) else { return nil }
            persisted = nil
            return
        }
        guard let request = try? JSONValue(parsing: body), request.kind == .object else { return nil }
        let query = request.member("query")?.string
        let declared = request.member("extensions")?.member("persistedQuery").flatMap { $0.kind == .object ? $0 : nil }
        guard query != nil || declared != nil else { return nil }
        persisted = declared.map { Persisted(request, declared: $0, query) }
    }

    /// Whether a URL has a parameter `query` whose value looks like a GraphQL document. Every document has a selection
    /// set in braces.
    private static func hasQuery(_ url: String) -> Bool {
        let items = URLComponents(string: url)?.queryItems ?? []
        return items.contains { $0.name == "query" && $0.value?.contains("{") == true }
    }
}

extension GraphQLRequest.Persisted {
    /// - Parameter declared: the value of `extensions.persistedQuery`
    fileprivate init(_ request: JSONValue, declared: JSONValue, _ query: String?) {
        let complete = Self.complete(declared, query)
        hashOnly = Self.body(of: request, withQuery: false, persisted: complete)
        withQuery = query.map { _ in Self.body(of: request, withQuery: true, persisted: complete) }
        withoutHash = query.map { _ in Self.body(of: request, withQuery: true, persisted: nil) }
    }

    /// Adds the version and the hash to `declared` if they are missing. Without a query, no hash is added.
    private static func complete(_ declared: JSONValue, _ query: String?) -> JSONValue {
        var members = declared.members.map { ($0.name, $0.value) }
        if declared["version"] == nil { members.append(("version", 1)) }
        if declared["sha256Hash"] == nil, let query {
            members.append(("sha256Hash", .string(SHA256.hash(query.utf8).hex)))
        }
        return .object(members)
    }

    private static func body(of request: JSONValue, withQuery: Bool, persisted: JSONValue?) -> [UInt8] {
        var members: [(String, JSONValue)] = []
        for (name, value) in request.members {
            switch name {
            case "query" where !withQuery: continue
            case "extensions":
                var extensions = value.members.map { ($0.name, $0.value) }.filter { $0.0 != "persistedQuery" }
                if let persisted { extensions.append(("persistedQuery", persisted)) }
                if !extensions.isEmpty { members.append((name, .object(extensions))) }
            default: members.append((name, value))
            }
        }
        return JSONValue.object(members).compactBytes
    }
}
