internal import Logging

/// Prepares the metadata of a log statement for ``ServiceLogHandler``.
enum LogMetadata {
    /// Returns the metadata of one statement, sorted by key. Metadata of the statement overrides that of the provider,
    /// which overrides that of the handler. A logged error adds `error.message` and `error.type`, as in the handlers of
    /// swift-log.
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

    /// Converts a value to text. Members of dictionaries are sorted, so that equal values have equal text.
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
