import LarderImages
import LarderProtocol

extension ImageDownloads: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (images, rights) = (try call.server.imageService(), call.connection.rights)
        return .task(
            TaskReply(size: .measured { await images.bytesOfDownloads }) { () async throws(WireError) in
                let downloads = await images.cache.downloadsInProgress()
                return Result(downloads: downloads.map { Download($0, images, for: rights) })
            })
    }
}

extension ImageService {
    /// An upper bound of the memory of the list of downloads in bytes: each URL twice, once encoded, and 512 bytes for
    /// the other members.
    fileprivate var bytesOfDownloads: Int {
        get async { await cache.downloadsInProgress().reduce(0) { $0 + 2 * $1.url.utf8.count + 512 } }
    }
}

extension ImageCancel: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (id, images) = (call.parameters.download, try call.server.imageService())
        return .task(
            TaskReply(size: .small) { () async throws(WireError) in
                guard let requests = await images.cache.cancelDownload(id) else {
                    throw WireError(.notFound, "no download has the ID \(id); it may have ended")
                }
                return Result(requests: requests)
            })
    }
}
