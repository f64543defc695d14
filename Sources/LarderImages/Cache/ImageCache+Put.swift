internal import LarderUpstream

extension ImageCache {
    /// How often room is made for one step of a put before it fails: other writers may take what was made.
    private static let maxRoomRequests = 64

    /// Stores bytes that a client brings under its URL or key, as if the URL's origin had sent them. They replace what is
    /// held there. The same checks and limits apply as to a download.
    ///
    /// - Parameters:
    ///   - request: under what it is looked up, and what the bytes must be
    ///   - lifetime: for how many seconds it is fresh
    /// - Throws: ``ImageError/Code/invalidURL``; what ``BlobWriter`` throws; ``ImageError/Code/noRoom``
    public func put(
        _ request: ImageRequest, _ bytes: [UInt8], lifetime: Int
    ) async throws(ImageError) -> CachedImage {
        let place = try place(of: request)
        lastNumber += 1
        let (number, store) = (lastNumber, store)
        let writer = try await withRoom(number) { () throws(ImageError) in
            try store.begin(declaredLength: bytes.count)
        }
        let blob: PublishedBlob
        do throws(ImageError) {
            try await withRoom(number) { () throws(ImageError) in try writer.append(bytes) }
            blob = try await blocking.run { () throws(ImageError) in
                try writer.finish(expectedDigest: request.expectedDigest)
            }
        } catch {
            await blocking.run { writer.discard() }
            throw error
        }
        guard !isStopping, !Task.isCancelled else {
            release(blob.digest)
            throw isStopping ? Self.shuttingDown : Self.cancelled
        }
        let now = clock.now
        let response = StoredResponse(
            status: 200, fields: ResponseFields([(name: "cache-control", value: "max-age=\(lifetime)")]), request: sent,
            requestTime: now, responseTime: now)
        let row = ImageRow(keyText: place.keyText, url: request.url, blob: blob, response: response, lastUse: now)
        guard keep(row) else {
            release(blob.digest)
            throw ImageError(
                .noRoom, "the cache holds \(store.limits.count) images and none of them may go; release or unpin some")
        }
        failures.succeeded(place.exactKey(of: request.url))
        return CachedImage(
            row.entry, ImageDetails(header: row.header, response: response), source: .miss, now: now, freshness: .fresh)
    }

    private func withRoom<Value: Sendable>(
        _ number: Int, _ body: @escaping @Sendable () throws(ImageError) -> Value
    ) async throws(ImageError) -> Value {
        var requests = 0
        while true {
            do throws(ImageError) {
                return try await blocking.run(body)
            } catch {
                requests += 1
                guard let shortage = error.shortage, requests <= Self.maxRoomRequests, !Task.isCancelled,
                    try await makeRoom(for: number, shortage)
                else { throw error }
            }
        }
    }
}
