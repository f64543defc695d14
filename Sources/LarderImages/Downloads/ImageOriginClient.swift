internal import LarderHTTPSemantics
internal import LarderUpstream

/// Downloads images from their origins into the cache. ``ImageDownloader`` is the implementation; tests have others.
protocol ImageOriginClient: Sendable {
    /// The fields that every request has. The `Vary` of a response may name them.
    var requestFields: [(name: String, value: String)] { get }

    /// Changes the permitted private address ranges, with effect from the next request.
    func update(allowedNetworks: [AddressRange])

    /// Downloads an image. Cancelling the task ends the download.
    ///
    /// - Parameters:
    ///   - order: the request
    ///   - progress: updated as bytes arrive
    ///   - owner: frees disk space, and is notified of failed attempts. The client keeps no reference to it after the
    ///     download
    /// - Throws: ``ImageError``. Nothing is then left on disk
    @concurrent
    func download(
        _ order: DownloadOrder, _ progress: DownloadProgress, for owner: any DownloadOwner
    ) async throws(ImageError) -> DownloadOutcome
}

/// The parameters of a download.
struct DownloadOrder: Sendable {
    let id: TransferID
    /// An absolute `http` or `https` URL.
    let url: String
    /// The credential fields for the origin. They are not sent to other origins.
    let headers: [(name: String, value: String)]
    /// The cached response for a conditional request. Nil to download the image unconditionally.
    let cached: StoredResponse?
    /// The required SHA-256 of the bytes, if any.
    let expectedDigest: BlobDigest?
    /// The limits whose minimum rates apply. Nil to apply the rates of the HTTP client.
    let limits: DownloadLimits?
}

/// The result of a download.
enum DownloadOutcome: Sendable {
    /// The cached image is current. The response includes the updated fields.
    case notModified(StoredResponse)
    /// A new image, to which the caller has a reference, and its URL after redirects.
    case published(PublishedBlob, StoredResponse, url: String)
}
