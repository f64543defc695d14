internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream

extension ImageCache {
    /// Stores an image from a client under its URL or key, as if the origin of the URL had sent it, and replaces the image
    /// there. The checks and limits of a download apply.
    ///
    /// - Parameters:
    ///   - request: the URL, the cache key and the expected digest
    ///   - lifetime: for how many seconds it is fresh
    /// - Throws: ``ImageError/Code/invalidURL``; what ``BlobWriter`` throws; ``ImageError/Code/noRoom``;
    ///   ``ImageError/Code/unusableFile`` and ``ImageError/Code/fileChanged`` of a file
    public func put(
        _ request: ImageRequest, _ content: PutContent, lifetime: Int
    ) async throws(ImageError) -> CachedImage {
        let place = try place(of: request)
        lastNumber += 1
        let (number, store) = (lastNumber, store)
        let room = room(for: number)
        defer { noteRoom(endOf: number) }
        let source: PutSource
        switch content {
        case .bytes(let bytes): source = .bytes(bytes)
        case .file(let file):
            source = .file(try await blocking.run { () throws(ImageError) in try file.reading() })
        }
        let writer = try await room.run(on: blocking) { () throws(ImageError) in
            try store.begin(declaredLength: source.size)
        }
        let blob: PublishedBlob
        do throws(ImageError) {
            try await append(source, to: writer, room)
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

    /// Writes all bytes. A piece of a file is read once, even if it is written only after room was made.
    private func append(_ source: PutSource, to writer: BlobWriter, _ room: RoomMaker) async throws(ImageError) {
        switch source {
        case .bytes(let bytes):
            try await room.run(on: blocking) { () throws(ImageError) in try writer.append(bytes) }
        case .file(let reading):
            var offset = 0
            while offset < reading.size {
                if isStopping { throw Self.shuttingDown }
                if Task.isCancelled { throw Self.cancelled }
                let chunk = try await blocking.run { [offset] () throws(ImageError) in try reading.chunk(at: offset) }
                try await room.run(on: blocking) { () throws(ImageError) in try writer.append(chunk) }
                offset += chunk.count
            }
            try await blocking.run { () throws(ImageError) in try reading.checkUnchanged() }
        }
    }
}

/// The source of the bytes of a put, with a known size.
private enum PutSource {
    case bytes([UInt8])
    case file(PassedInFile.Reading)

    var size: Int {
        switch self {
        case .bytes(let bytes): bytes.count
        case .file(let reading): reading.size
        }
    }
}
