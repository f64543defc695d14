import LarderConfigModel
import LarderJSON
import LarderUpstream

/// Applies the events of a stream to a document.
struct SSEDocumentReader: Sendable {
    /// The URL of the stream, for messages.
    var location: String
    /// The types of events that contain a merge patch.
    var patchEvents: [String]
    /// The path of the version in the document; nil for none.
    var versionPath: JSONPath?
    /// The condition under which a document without a version is rejected.
    var versionRequirement = VersionRequirement.onceSeen
    /// The maximum size of the document, in bytes.
    var maximumBytes: Int

    /// Returns the document after an event; nil if the type of the event is unknown.
    ///
    /// - Parameter base: the document before the event; nil before the first document of the stream
    /// - Throws: `rejected`. Later events cannot be applied until a whole document has been read. `cancelled` if the
    ///   task is cancelled.
    func document(after event: EventStreamParser.Event, from base: JSONValue?) throws(ConfigError) -> SourceDocument? {
        if patchEvents.contains(event.type) {
            guard let base else {
                throw ConfigError(
                    .rejected, "\(location) sent a patch before any whole document; begin each stream with one")
            }
            let patched = MergePatch.apply(try value(of: event, "a patch"), to: base)
            guard patched.kind == .object else {
                throw ConfigError(
                    .rejected,
                    "\(location) sent a patch that makes the configuration \(patched.kind.article); it must remain "
                        + "an object"
                )
            }
            guard patched.textSize <= maximumBytes else {
                throw ConfigError(
                    .rejected,
                    "\(location) sent a patch after which the document has more than "
                        + "\(maximumBytes) bytes (limits.documentBytes)"
                )
            }
            return source(patched)
        }
        guard event.type == "message" else { return nil }
        let document = try value(of: event, "an event")
        guard document.kind == .object else {
            throw ConfigError(
                .rejected,
                "\(location) sent an event with \(document.kind.article); a configuration must be a JSON object")
        }
        return source(document)
    }

    private func source(_ document: JSONValue) -> SourceDocument {
        SourceDocument(value: document, versionPath: versionPath, requirement: versionRequirement, validator: nil)
    }

    private func value(of event: EventStreamParser.Event, _ what: String) throws(ConfigError) -> JSONValue {
        do {
            return try JSONValue(parsing: event.data) { Task.isCancelled }
        } catch is CancellationError {
            throw ConfigError(.cancelled, "an event of \(location) was not parsed; the stream was cancelled")
        } catch {
            let advice = event.data.isEmpty ? "; send heartbeats as comments" : ""
            throw ConfigError(.rejected, "\(location) sent \(what) that is not JSON: \(error)\(advice)")
        }
    }
}
