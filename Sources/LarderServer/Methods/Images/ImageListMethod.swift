import LarderImages
import LarderProtocol

extension ImageList: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let page = ImagePage(
            parameters: call.parameters, images: try call.server.imageService(), rights: call.connection.rights)
        return .task(TaskReply { (memory) async throws(WireError) in try await page.read(reserving: &memory) })
    }
}

/// A page of `image.list`. The memory of the reply depends on the texts of its rows. The rows are therefore read in
/// chunks. Before each chunk, memory for the longest rows is reserved, and afterwards only that of the actual rows
/// stays reserved. The page ends before a chunk whose memory is refused. Otherwise concurrent lists of a user would
/// refuse each other half way, and the chunks that they have read would be lost.
private struct ImagePage: Sendable {
    private static let rowsOfChunk = 64
    /// The usual maximum of the memory of a row and of its entry in the reply, without their texts, in bytes.
    private static let bytesOfImage = 2048
    /// The usual maximum of the bytes of a row's texts: two URLs of 8,192 bytes, and short header fields.
    private static let longestTexts = 17 * 1024

    let parameters: ImageList.Parameters
    let images: ImageService
    let rights: PeerRights

    /// Reads the rows, and makes the result.
    /// - Parameter memory: receives the memory of the rows and of the reply
    /// - Throws: the error of reading the rows; a refusal if memory for the first chunk exceeds the user's limit
    func read(reserving memory: inout ReplyMemory) async throws(WireError) -> ImageList.Result {
        var (rows, next): ([ImageRow], String?) = ([], parameters.after)
        var bytes = 0
        while rows.count < parameters.limit {
            let limit = min(Self.rowsOfChunk, parameters.limit - rows.count)
            do throws(UsageRefusal) {
                try memory.reserve(bytes + limit * Self.bytes(ofTexts: Self.longestTexts))
            } catch {
                if rows.isEmpty { throw memory.error(of: error) }
                break
            }
            let chunk: [ImageRow]
            do throws(ImageError) {
                var prefix: ImagePrefix?
                if let text = parameters.prefix { prefix = try ImagePrefix(text) }
                (chunk, next) = try await images.cache.list(after: next, limit: limit, prefix: prefix)
            } catch {
                throw WireError(error)
            }
            rows += chunk
            bytes += chunk.reduce(0) { $0 + Self.bytes(ofTexts: $1.textBytes) }
            memory.reservation?.adjust(to: bytes)
            if chunk.count < limit || next == nil { break }
        }
        // Images that the peer may not have are omitted, because even their URLs may be secret.
        let shown = rows.filter { images.denial(of: $0.lookup.url, to: rights) == nil }
        return ImageList.Result(images: shown.map { ImageList.Entry($0, now: images.clock.now) }, next: next)
    }

    /// The memory of a row and of its entry in the reply. A text is in the row and in the encoded reply.
    private static func bytes(ofTexts count: Int) -> Int { bytesOfImage + 2 * count }
}
