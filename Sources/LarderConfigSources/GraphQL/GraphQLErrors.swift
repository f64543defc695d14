import LarderJSON

/// The `errors` of a GraphQL response (specification of October 2021, section 7.1.2). If `errors` is neither a list nor
/// null, its value counts as a single error, because some servers do not send a list.
struct GraphQLErrors: Sendable {
    private let count: Int
    /// The first message that is not empty; nil if no error has one.
    private let message: String?
    /// Whether the server reports that it does not know the hash of the persisted query.
    let isPersistedQueryUnknown: Bool
    /// Whether the server reports that it does not support persisted queries.
    let isPersistingUnsupported: Bool

    /// Returns nil if the response has no errors: no member `errors`, null or an empty list.
    init?(in response: JSONValue) {
        guard let errors = response.member("errors"), !errors.isNull else { return nil }
        let list = errors.kind == .array ? Array(errors.elements) : [errors]
        if list.isEmpty { return nil }
        let messages = list.compactMap(Self.message)
        let codes = list.compactMap { $0.member("extensions")?.member("code")?.string }
        count = list.count
        message = messages.first { !$0.isEmpty }
        isPersistedQueryUnknown =
            messages.contains("PersistedQueryNotFound") || codes.contains("PERSISTED_QUERY_NOT_FOUND")
        isPersistingUnsupported =
            messages.contains("PersistedQueryNotSupported") || codes.contains("PERSISTED_QUERY_NOT_SUPPORTED")
    }

    private static func message(_ error: JSONValue) -> String? { error.string ?? error.member("message")?.string }

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
