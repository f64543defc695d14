package import LarderJSON

/// The progress of an `image.prefetch`: the notification `image.progress`.
package struct ImageProgress: Sendable, Hashable {
    /// The method of the notification.
    package static let method = "image.progress"

    /// The id of the `image.prefetch` request.
    package var request: RequestID
    /// The number of images that are cached now, whether downloaded or already present.
    package var done: Int
    /// The number of images that could not be cached.
    package var failed: Int
    /// The number of bytes downloaded so far.
    package var bytes: Int
    /// The number of images requested.
    package var total: Int

    package init(request: RequestID, done: Int, failed: Int, bytes: Int, total: Int) {
        self.request = request
        self.done = done
        self.failed = failed
        self.bytes = bytes
        self.total = total
    }

    /// Reads the `params` of the notification.
    /// - Throws: `invalidParams` with the name of the member that is missing or has the wrong type
    package init(params: JSONValue) throws(WireError) {
        let reader = try MemberReader(object: params)
        request = try reader.requiredRequestID("request")
        done = try reader.requiredInt("done")
        failed = try reader.requiredInt("failed")
        bytes = try reader.requiredInt("bytes")
        total = try reader.requiredInt("total")
    }

    /// Writes the complete notification, without a line end.
    package func write(to writer: inout JSONWriter) {
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

extension ImageGet {
    /// The progress of an `image.get` that waits for a download: the notification `image.progress`.
    package struct Progress: Sendable, Hashable {
        /// The id of the `image.get` request.
        package var request: RequestID
        /// The number of bytes of the image received so far. Decreases if the download starts again.
        package var receivedBytes: Int
        /// The size of the image in bytes; nil until the origin declares it.
        package var totalBytes: Int?
        /// Whether the request waits for a download that was already in progress.
        package var isShared: Bool

        package init(request: RequestID, receivedBytes: Int, totalBytes: Int? = nil, isShared: Bool) {
            self.request = request
            self.receivedBytes = receivedBytes
            self.totalBytes = totalBytes
            self.isShared = isShared
        }

        /// Reads the `params` of the notification.
        /// - Throws: `invalidParams` with the name of the member that is missing or has the wrong type
        package init(params: JSONValue) throws(WireError) {
            let reader = try MemberReader(object: params)
            request = try reader.requiredRequestID("request")
            receivedBytes = try reader.requiredInt("receivedBytes")
            totalBytes = try reader.int("totalBytes")
            isShared = try reader.requiredBool("shared")
        }

        /// Writes the complete notification, without a line end.
        package func write(to writer: inout JSONWriter) {
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

// The agent writes the result of a cache hit in two parts, because it stores the text of the first part and copies it
// into later results for the same image.

extension ImageGet.Result {
    package func write(to writer: inout JSONWriter) {
        Self.writeConstant(path: path, image: image, to: &writer)
        Self.writeRest(
            freshness: freshness.rawValue, source: source.rawValue, ageSeconds: ageSeconds, lease: lease,
            hasDescriptor: hasDescriptor, to: &writer)
    }

    /// Begins a result with the members that are the same in every reply for the image.
    /// ``writeRest(freshness:source:ageSeconds:lease:hasDescriptor:to:)`` writes the remaining members.
    package static func writeConstant(path: String, image: WireImage, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("path", path)
        image.writeMembers(to: &writer)
    }

    /// Writes the remaining members and ends the result.
    package static func writeRest(
        freshness: String, source: String, ageSeconds: Int, lease: Int, hasDescriptor: Bool,
        to writer: inout JSONWriter
    ) {
        writer.member("freshness", freshness)
        writer.member("source", source)
        writer.member("ageSeconds", ageSeconds)
        writer.member("lease", lease)
        if hasDescriptor { writer.member("descriptor", true) }
        writer.endObject()
    }
}
