import LarderFlagRules
import LarderJSON
import NIOCore
import NIOHTTP1

/// The requests and responses of the OpenFeature Remote Evaluation Protocol (OFREP) 0.3.0.
enum Evaluation {
    /// Reads the context from the body of a request. A context that is missing is empty.
    static func context(_ body: ByteBuffer, key: String?) throws(Response) -> FlagContext {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(parsing: [UInt8](body.readableBytesView))
        } catch {
            throw failure("PARSE_ERROR", "the body is not valid JSON", key: key)
        }
        guard value.kind == .object else { throw failure("INVALID_CONTEXT", "the body must be an object", key: key) }
        guard let context = value.member("context") else { return FlagContext() }
        guard context.kind == .object else {
            throw failure("INVALID_CONTEXT", "\"context\" must be an object", key: key)
        }
        if let targetingKey = context.member("targetingKey"), targetingKey.kind != .string {
            throw failure("INVALID_CONTEXT", "\"targetingKey\" must be a string", key: key)
        }
        return FlagContext(context)
    }

    /// The response for an outcome of one flag.
    static func response(_ outcome: FlagOutcome, key: String) -> Response {
        var writer = JSONWriter()
        write(outcome, key: key, to: &writer)
        guard let code = outcome.errorCode else { return .json(.ok, writer.bytes) }
        return .json(code == .flagNotFound ? .notFound : .badRequest, writer.bytes)
    }

    /// A response for a request that cannot be evaluated.
    static func failure(
        _ code: String, _ details: String, key: String?, _ status: HTTPResponseStatus = .badRequest
    ) -> Response {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("key", key)
        writer.member("errorCode", code)
        writer.member("errorDetails", details)
        writer.endObject()
        return .json(status, writer.bytes)
    }

    static func write(_ outcome: FlagOutcome, key: String, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("key", key)
        if let code = outcome.errorCode {
            writer.member("errorCode", code.rawValue)
            writer.member("errorDetails", outcome.errorMessage)
        } else {
            writer.member("value", outcome.value)
            writer.member("reason", outcome.reason.rawValue)
            writer.member("variant", outcome.variant)
        }
        if outcome.metadata.count > 0 { writer.member("metadata", outcome.metadata) }
        writer.endObject()
    }
}

/// The evaluation of all flags for one context, in time slices.
final class BulkEvaluation {
    private let snapshot: ServedSnapshot
    private let context: FlagContext
    private let now: Int64
    private let metadata: JSONValue
    private var names: ArraySlice<String>
    private(set) var writer = JSONWriter()

    /// - Parameter now: the time in seconds since 1970
    init(_ flags: FlagSet, of snapshot: ServedSnapshot, _ context: FlagContext, now: Int64) {
        (self.snapshot, self.context, self.now) = (snapshot, context, now)
        (metadata, names) = (flags.metadata, flags.names[...])
        writer.beginObject()
        writer.name("flags")
        writer.beginArray()
    }

    /// Evaluates at least one flag, and further ones for the duration of a time slice.
    /// - Returns: whether the evaluation is complete
    func advance(for slice: TimeAmount) -> Bool {
        let end = NIODeadline.now() + slice
        while let name = names.popFirst() {
            Evaluation.write(snapshot.evaluate(name, context, now: now), key: name, to: &writer)
            if !names.isEmpty, NIODeadline.now() >= end { return false }
        }
        writer.endArray()
        if metadata.count > 0 { writer.member("metadata", metadata) }
        writer.endObject()
        return true
    }
}
