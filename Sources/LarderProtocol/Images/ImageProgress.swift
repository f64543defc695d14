public import LarderJSON

/// The progress of an `image.prefetch`: the notification `image.progress`.
public struct ImageProgress: Sendable, Hashable {
    /// The method of the notification.
    public static let method = "image.progress"

    /// The id of the `image.prefetch` request.
    public var request: RequestID
    /// The number of images that are cached now, whether downloaded or already present.
    public var done: Int
    /// The number of images that could not be cached.
    public var failed: Int
    /// The number of bytes downloaded so far.
    public var bytes: Int
    /// The number of images requested.
    public var total: Int

    public init(request: RequestID, done: Int, failed: Int, bytes: Int, total: Int) {
        self.request = request
        self.done = done
        self.failed = failed
        self.bytes = bytes
        self.total = total
    }

    /// Reads the `params` of the notification.
    /// - Throws: `invalidParams` with the name of the member that is missing or has the wrong type
    public init(params: JSONValue) throws(WireError) {
        let reader = try MemberReader(object: params)
        request = try reader.requiredRequestID("request")
        done = try reader.requiredInt("done")
        failed = try reader.requiredInt("failed")
        bytes = try reader.requiredInt("bytes")
        total = try reader.requiredInt("total")
    }

    /// Writes the complete notification, without a line end.
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
