public import LarderJSON

extension ImageGet {
    /// The progress of an `image.get` that waits for a download: the notification `image.progress`.
    public struct Progress: Sendable, Hashable {
        /// The id of the `image.get` request.
        public var request: RequestID
        /// The number of bytes of the image received so far. Decreases if the download starts again.
        public var receivedBytes: Int
        /// The size of the image in bytes; nil until the origin declares it.
        public var totalBytes: Int?
        /// Whether the request waits for a download that was already in progress.
        public var isShared: Bool

        public init(request: RequestID, receivedBytes: Int, totalBytes: Int? = nil, isShared: Bool) {
            self.request = request
            self.receivedBytes = receivedBytes
            self.totalBytes = totalBytes
            self.isShared = isShared
        }

        /// Reads the `params` of the notification.
        /// - Throws: `invalidParams` with the name of the member that is missing or has the wrong type
        public init(params: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: params)
            request = try reader.requiredRequestID("request")
            receivedBytes = try reader.requiredInt("receivedBytes")
            totalBytes = try reader.int("totalBytes")
            isShared = try reader.requiredBool("shared")
        }

        /// Writes the complete notification, without a line end.
        public func write(to writer: inout JSONWriter) {
            Envelope.writeRequest(id: nil, method: ImageProgress.method, to: &writer) { writer in
                writer.beginObject()
                writer.member("request", request)
                writer.member("receivedBytes", receivedBytes)
                writer.member("totalBytes", totalBytes)
                writer.member("shared", isShared)
                writer.endObject()
            }
        }
    }
}
