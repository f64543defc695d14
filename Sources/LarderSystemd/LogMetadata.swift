internal import Logging

/// What both log handlers do with a statement's metadata before they write it.
enum LogMetadata {
    /// The metadata of one statement, sorted by key: the handler's own, overridden by the provider's, overridden by the
    /// statement's. An error that was logged joins it as `error.message` and `error.type`, as in swift-log's handlers.
    static func merged(
        _ own: Logger.Metadata, _ provider: Logger.MetadataProvider?, _ event: LogEvent
    ) -> [(key: String, value: String)] {
        var all = own
        if let provided = provider?.get() {
            all.merge(provided) { $1 }
        }
        if let explicit = event.metadata {
            all.merge(explicit) { $1 }
        }
        if let error = event.error {
            all["error.message"] = .string("\(error)")
            all["error.type"] = .string(String(reflecting: type(of: error)))
        }
        return all.map { (key: $0.key, value: text($0.value)) }.sorted { $0.key < $1.key }
    }

    /// A value as text; the members of a dictionary are sorted, so that equal values read the same.
    static func text(_ value: Logger.MetadataValue) -> String {
        switch value {
        case .string(let string): string
        case .stringConvertible(let convertible): convertible.description
        case .array(let values): "[\(values.map(text).joined(separator: ", "))]"
        case .dictionary(let members):
            "{\(members.sorted { $0.key < $1.key }.map { "\($0.key): \(text($0.value))" }.joined(separator: ", "))}"
        }
    }
}
