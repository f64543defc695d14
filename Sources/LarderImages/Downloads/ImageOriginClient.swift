internal import LarderHTTPSemantics
internal import LarderUpstream

/// Downloads images from their origins into the cache. ``ImageDownloader`` is the real one.
protocol ImageOriginClient: Sendable {
    /// All fields that are sent to every origin, for `Vary`.
    var requestFields: [(name: String, value: String)] { get }

    /// Allows other blocks of addresses, from the next request on.
    func update(allowedNetworks: [AddressRange])

    /// Downloads an image. Cancelling the task ends it.
    ///
    /// - Parameters:
    ///   - owner: makes room for the image, and is told of failed attempts. It is not kept
    /// - Throws: ``ImageError``; nothing is left on disk then
    @concurrent
    func download(
        _ order: DownloadOrder, _ progress: DownloadProgress, for owner: any DownloadOwner
    ) async throws(ImageError) -> DownloadOutcome
}

/// The owner of downloads.
protocol DownloadOwner: SpaceReclaiming {
    /// Notes that an attempt of a download failed and another one follows.
    func attemptFailed(_ id: TransferID, _ error: ImageError) async
}

/// The request of a download to the origin.
struct DownloadOrder: Sendable {
    let id: TransferID
    /// An absolute `http` or `https` URL.
    let url: String
    /// The origin's credentials, which no other origin gets.
    let headers: [(name: String, value: String)]
    /// The cached response, to download the image only if it has changed; nil to download it in any case.
    let cached: StoredResponse?
    /// What the SHA-256 of the bytes must be.
    let expectedDigest: BlobDigest?
    /// The slowest transfers that are allowed; nil for those of the client.
    let limits: DownloadLimits?
}

/// The result of a download.
enum DownloadOutcome: Sendable {
    /// The cached image is current. The response has the fields that the origin sent now.
    case notModified(StoredResponse)
    /// A new image, to which the caller holds a reference, and the URL that it came from after redirects.
    case published(PublishedBlob, StoredResponse, url: String)
}
