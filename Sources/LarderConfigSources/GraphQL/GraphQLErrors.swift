import LarderJSON

/// The `errors` of a GraphQL response (specification of October 2021, section 7.1.2), or what a server sends instead of the
/// list of errors that the specification asks for.
struct GraphQLErrors: Sendable {
    private let count: Int
    /// The first message; nil if no error has one.
    private let message: String?
    /// Whether the server does not know the hash of a persisted query.
    let isPersistedQueryUnknown: Bool
    /// Whether the server does not persist queries.
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

    /// The first message on one line, without the secrets of the request that it may quote.
    func text(without secrets: [String]) -> String {
        let number = count == 1 ? "an error" : "\(count) errors"
        guard var message else { return "\(number) without a message" }
        for secret in secrets {
            // "Bearer TOKEN": the token alone may be quoted, too.
            for part in [secret[...]] + secret.split(separator: " ") where part.count > 3 {
                message = message.replacing(part, with: "…")
            }
        }
        message = String(message.prefix(200).map { $0.isNewline ? " " : $0 })
        return "\(number): \(message)"
    }
}
