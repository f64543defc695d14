import LarderImages
import LarderProtocol
import Synchronization

extension ImageList: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let page = ImagePage(call.parameters, try call.server.imageService(), for: call.connection.rights)
        let size = ReplySize.reserved { (usage) async throws(UsageRefusal) in try await page.read(reserving: usage) }
        return .task(TaskReply(size: size) { () async throws(WireError) in try page.result() })
    }
}

/// A page of `image.list`. The memory of the reply depends on the texts of its rows. The rows are therefore read in
/// chunks. Before each chunk, memory for the longest rows is reserved, and afterwards only that of the actual rows
/// stays reserved. The page ends before a chunk whose memory is refused. Otherwise concurrent lists of a user would
/// refuse each other half way, and the chunks that they have read would be lost.
private final class ImagePage: Sendable {
    private typealias Rows = (rows: [ImageRow], next: String?)

    private static let rowsOfChunk = 64
    /// The usual maximum of the memory of a row and of its entry in the reply, without their texts, in bytes.
    private static let bytesOfImage = 2048
    /// The usual maximum of the bytes of a row's texts: two URLs of 8,192 bytes, and short header fields.
    private static let longestTexts = 17 * 1024

    private let parameters: ImageList.Parameters
    private let images: ImageService
    private let rights: PeerRights
    /// Two closures of one task pass it on. The compiler does not know that they never run at the same time.
    private let outcome = Mutex<Result<Rows, WireError>>(.success(([], nil)))

    init(_ parameters: ImageList.Parameters, _ images: ImageService, for rights: PeerRights) {
        (self.parameters, self.images, self.rights) = (parameters, images, rights)
    }

    /// Reads the rows.
    /// - Returns: the memory that is reserved for the rows and the reply; nil for a small reply
    /// - Throws: a refusal if memory for the first chunk exceeds the user's limit
    func read(reserving usage: ConnectionUsage) async throws(UsageRefusal) -> ReplyReservation? {
        var (page, bytes): (Rows, Int) = (([], parameters.after), 0)
        var reservation: ReplyReservation?
        while page.rows.count < parameters.limit {
            let limit = min(Self.rowsOfChunk, parameters.limit - page.rows.count)
            let needed = bytes + limit * Self.bytes(ofTexts: Self.longestTexts)
            do throws(UsageRefusal) {
                if let reservation {
                    try reservation.resize(to: needed, usage.limits)
                } else {
                    reservation = try usage.reserveReply(needed)
                }
            } catch {
                if page.rows.isEmpty { throw error }
                break
            }
            let rows: [ImageRow]
            do throws(ImageError) {
                var prefix: ImagePrefix?
                if let text = parameters.prefix { prefix = try ImagePrefix(text) }
                (rows, page.next) = try await images.cache.list(after: page.next, limit: limit, prefix: prefix)
            } catch {
                outcome.withLock { $0 = .failure(WireError(error)) }
                return reservation
            }
            page.rows += rows
            bytes += rows.reduce(0) { $0 + Self.bytes(ofTexts: $1.textBytes) }
            reservation?.adjust(to: bytes)
            if rows.count < limit || page.next == nil { break }
        }
        outcome.withLock { [page] in $0 = .success(page) }
        return reservation
    }

    /// The memory of a row and of its entry in the reply. A text is in the row and in the encoded reply.
    private static func bytes(ofTexts count: Int) -> Int { bytesOfImage + 2 * count }

    /// Makes the result, and releases the rows.
    /// - Throws: the error of reading the rows
    func result() throws(WireError) -> ImageList.Result {
        let page = try outcome.withLock { outcome in
            defer { outcome = .success(([], nil)) }
            return outcome
        }.get()
        // Images that the peer may not have are omitted, because even their URLs may be secret.
        let shown = page.rows.filter { images.denial(of: $0.lookup.url, to: rights) == nil }
        return ImageList.Result(images: shown.map { ImageList.Entry($0, now: images.clock.now) }, next: page.next)
    }
}
