import LarderImages
import LarderProtocol

extension ImagePut: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, images) = (call.parameters, try call.server.imageService())
        let content: PutContent
        switch parameters.content {
        case .inline(let bytes): content = .bytes(bytes)
        case .descriptor:
            if call.isInBatch {
                throw WireError(
                    .invalidParams, "a batch cannot carry a descriptor; send image.put outside the batch")
            }
            content = .file(try receivedFile(call.connection))
        }
        return .task(
            TaskReply(size: .small) { () async throws(WireError) in
                try await WireError.from { () async throws(ImageError) in
                    var image = ImageRequest(parameters.image)
                    image.expectedDigest = parameters.expectedDigest.flatMap { BlobDigest(hex: $0.hex) }
                    let stored = try await images.cache.put(image, content, lifetime: parameters.lifetimeSeconds)
                    return Result(image: WireImage(stored))
                }
            })
    }

    private static func receivedFile(_ connection: Connection) throws(WireError) -> PassedInFile {
        switch connection.state.reader.descriptors?.take() {
        case .file(let file): return file
        case .several:
            throw WireError(.invalidParams, "the request came with several descriptors; pass one")
        case .lost:
            connection.loop.traffic.refused.requests += 1
            throw WireError(
                .limitExceeded,
                "the limit of open files of this connection, of its user or of the agent is reached; retry after other "
                    + "requests have been answered")
        case nil:
            throw WireError(
                .invalidParams,
                "the request came without a descriptor; pass one with the first byte of its line (SCM_RIGHTS), not "
                    + "through a relay")
        }
    }
}
