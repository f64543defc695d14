import LarderJSON

/// GraphQL requests, as in "GraphQL over HTTP", a working draft of the GraphQL Foundation.
enum GraphQL {
    /// The media type of a GraphQL response. A body of this type is a GraphQL response even if the HTTP status is an
    /// error.
    static let mediaType = "application/graphql-response+json"
    /// The value of `Accept`.
    static let accept = "\(mediaType), application/json"

    /// Whether a request has a text `query` in its body or, if it has no body, a `query` in its URL whose value looks
    /// like a GraphQL document. Every document has a selection set in braces.
    static func isRequest(url: String, body: [UInt8]?) -> Bool {
        if let body { return (try? JSONValue(parsing: body))?.member("query")?.string != nil }
        // The text is not decoded, because the rest of the query may have escapes that are not UTF-8.
        let query = url.utf8.prefix { $0 != UInt8(ascii: "#") }.drop { $0 != UInt8(ascii: "?") }.dropFirst()
        return query.split(separator: UInt8(ascii: "&")).contains { member in
            guard member.starts(with: "query=".utf8) else { return false }
            let value = Substring(member)
            return value.contains("{") || value.contains("%7B") || value.contains("%7b")
        }
    }
}

/// The `errors` of a GraphQL response (specification of October 2021, section 7.1.2). If `errors` is neither a list nor
/// null, its value counts as a single error, because some servers do not send a list.
struct GraphQLErrors: Sendable {
    private let count: Int
    /// The first message that is not empty; nil if no error has one.
    private let message: String?

    /// Returns nil if the response has no errors: no member `errors`, null or an empty list.
    init?(in response: JSONValue) {
        guard let errors = response.member("errors"), !errors.isNull else { return nil }
        let list = errors.kind == .array ? Array(errors.elements) : [errors]
        if list.isEmpty { return nil }
        count = list.count
        message = list.lazy.compactMap { $0.string ?? $0.member("message")?.string }.first { !$0.isEmpty }
    }

    /// Returns the number of errors and the first message on one line. Secrets of the request are removed from the
    /// message.
    func text(without secrets: [String]) -> String {
        let number = count == 1 ? "an error" : "\(count) errors"
        guard var message else { return "\(number) without a message" }
        for secret in secrets {
            // If the secret is "Bearer TOKEN", the message may quote only the token, so each part is also removed on
            // its own.
            for part in [secret[...]] + secret.split(separator: " ") where part.count > 3 {
                message = message.replacing(part, with: "…")
            }
        }
        message = String(message.prefix(200).map { $0.isNewline ? " " : $0 })
        return "\(number): \(message)"
    }
}
