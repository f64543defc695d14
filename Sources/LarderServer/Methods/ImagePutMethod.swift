import LarderImages
import LarderProtocol

/// `image.put`: an image that a client brings, in the request's line or as an open file.
struct ImagePutMethod {
    let connection: Connection

    func serve(_ request: MethodTable.OwnRequest<ImagePut>) throws(WireError) {
        let parameters = request.parameters
        let images = try connection.loop.server.imageService()
        let content: PutContent
        switch parameters.content {
        case .inline(let bytes): content = .bytes(bytes)
        case .descriptor:
            if request.slot != nil {
                throw WireError(
                    .invalidParams, "no descriptor belongs to a request of a batch; send it outside the batch")
            }
            content = .file(try receivedFile())
        }
        let work = MethodTable.Work(admission: request.admission) { () async throws(WireError) in
            try await WireError.from { () async throws(ImageError) in
                var image = ImageRequest(parameters.image)
                image.expectedDigest = parameters.expectedDigest.flatMap { BlobDigest(hex: $0.hex) }
                let stored = try await images.cache.put(image, content, lifetime: parameters.lifetimeSeconds)
                return ImagePut.Result(image: WireImage(stored))
            }
        }
        try connection.dispatcher.serveLater(request.id, work, .connection, in: request.slot)
    }

    private func receivedFile() throws(WireError) -> PassedInFile {
        switch connection.reader.descriptors?.take() {
        case .file(let file): return file
        case .several:
            throw WireError(.invalidParams, "several descriptors came with the request; pass one")
        case .lost:
            connection.loop.traffic.refused.requests += 1
            throw WireError(
                .limitExceeded,
                "the limit of open files is reached, for this connection, this user or the agent; send it again when other "
                    + "requests are answered")
        case nil:
            throw WireError(
                .invalidParams,
                "no descriptor came with the request; pass one with the first byte of its line (SCM_RIGHTS), not through a "
                    + "relay")
        }
    }
}
