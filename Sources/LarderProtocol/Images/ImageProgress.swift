public import LarderJSON

/// How far an `image.prefetch` has come: the notification `image.progress`.
public struct ImageProgress: Sendable, Hashable {
    /// The notification's method.
    public static let method = "image.progress"

    /// The id of the `image.prefetch` request.
    public var request: RequestID
    /// Images that are there now: those fetched and those that were held.
    public var done: Int
    /// Images that could not be had.
    public var failed: Int
    /// Bytes fetched.
    public var bytes: Int
    /// Images asked for.
    public var total: Int

    public init(request: RequestID, done: Int, failed: Int, bytes: Int, total: Int) {
        self.request = request
        self.done = done
        self.failed = failed
        self.bytes = bytes
        self.total = total
    }

    /// Reads the `params` of the notification.
    /// - Throws: `invalidParams` naming the member that is missing or has the wrong type.
    public init(params: JSONValue) throws(WireError) {
        let reader = try MemberReader(object: params)
        request = try reader.requiredRequestID("request")
        done = try reader.requiredInt("done")
        failed = try reader.requiredInt("failed")
        bytes = try reader.requiredInt("bytes")
        total = try reader.requiredInt("total")
    }

    /// Writes the whole notification, without a line end.
    public func write(to writer: inout JSONWriter) {
        Envelope.writeRequest(id: nil, method: Self.method, to: &writer) { writer in
            writer.beginObject()
            writer.member("request", request)
            writer.member("done", done)
            writer.member("failed", failed)
            writer.member("bytes", bytes)
            writer.member("total", total)
            writer.endObject()
        }
    }
}
