internal import LarderUpstream

/// One image from the request to the published blob: conditions, attempts, resumption, space.
struct ImageDownload: Sendable {
    /// How it ended well.
    enum Outcome: Sendable {
        /// What is held is current; its record has what the origin said just now.
        case notModified(StoredResponse)
        /// A new image, to which the caller holds a reference; where it came from after redirects.
        case published(PublishedBlob, StoredResponse, url: String)
    }

    private let url: String
    private let headers: [(name: String, value: String)]
    private let held: StoredResponse?
    private let expectedDigest: BlobDigest?
    private let fetcher: ImageFetcher
    private let store: BlobStore
    private let blocking: BlockingWork
    private let clock: ImageClock
    private let makeRoom: @Sendable (SpaceShortage) async -> Bool
    private let received: @Sendable (Int) -> Void

    /// Prepares a download.
    ///
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL
    ///   - headers: the origin's credentials; nobody else gets them
    ///   - held: what is known of the image that is held; asks whether that is current. Nothing to fetch it in any case
    ///   - expectedDigest: what the bytes must be
    ///   - fetcher: the way to the network
    ///   - store: where the image goes
    ///   - blocking: where the disk is waited for
    ///   - clock: the time of day, and waits between attempts
    ///   - makeRoom: removes what must go before there is room; no if nothing may go
    ///   - received: told of each piece of the body, with its bytes
    init(
        url: String, headers: [(name: String, value: String)], held: StoredResponse?, expectedDigest: BlobDigest?,
        fetcher: ImageFetcher, store: BlobStore, blocking: BlockingWork, clock: ImageClock,
        makeRoom: @escaping @Sendable (SpaceShortage) async -> Bool, received: @escaping @Sendable (Int) -> Void
    ) {
        self.url = url
        self.headers = headers
        self.held = held
        self.expectedDigest = expectedDigest
        self.fetcher = fetcher
        self.store = store
        self.blocking = blocking
        self.clock = clock
        self.makeRoom = makeRoom
        self.received = received
    }

    /// Runs it. Cancelling the task closes the connection.
    ///
    /// - Throws: ``ImageError``; nothing is left on disk then
    func run() async throws(ImageError) -> Outcome {
        throw ImageError(.offline, "\(url) cannot be fetched yet")
    }
}
