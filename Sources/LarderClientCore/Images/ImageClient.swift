package import LarderProtocol
public import SystemPackage

/// The `image.*` methods: the image cache that all processes of the machine share. Available as
/// ``LarderClient/images``.
///
/// ```swift
/// let size = try await client.images.withImage("https://img.example.org/logo.png") { image in
///     (image.info.width, image.info.height)
/// }
/// ```
///
/// All methods throw ``LarderClientError``. An error that the agent returns has the code `remote`. Its
/// ``LarderClientError/remoteError`` is, for example, `offline`, `imageRejected` or `forbiddenAddress`, with details in
/// its ``RemoteError/reason``. `unavailable` means that the settings disable the image cache, or that the agent cannot
/// use it. A retry does not help before this is corrected, although the error is retryable.
///
/// Getting, listing and prefetching images needs the right `images`. Storing images also needs `push`. Pinning and
/// removing images needs `administer`.
public struct ImageClient: Sendable {
    let client: LarderClient

    /// Gets an image and runs `body` with it. Its file is kept until `body` returns or throws.
    ///
    /// ```swift
    /// import Foundation
    ///
    /// let bytes = try await client.images.withImage("https://img.example.org/logo.png") { image in
    ///     try Data(contentsOf: URL(filePath: image.path), options: .alwaysMapped)
    /// }
    /// ```
    ///
    /// If several processes request an image at the same time, the agent downloads it once.
    /// - Parameters:
    ///   - request: the image, and how it may be obtained.
    ///   - body: reads the file.
    /// - Returns: the result of `body`.
    /// - Throws: the errors of ``get(_:onProgress:)`` and of `body`, and `disconnected` if `body` returned after the
    ///   connection had broken. The lease then ended with the connection, and the file may have been removed.
    public func withImage<Result>(
        _ request: LarderImageRequest, _ body: (LeasedImage) async throws -> Result
    ) async throws -> Result {
        let image = try await get(request)
        defer { image.release() }
        let result = try await body(image)
        guard image.isConnected else { throw LarderClientError.leaseLost }
        return result
    }

    /// Gets the image at a URL with the default policy, and runs `body` with it, as
    /// ``withImage(_:_:)`` does.
    ///
    /// ```swift
    /// let url = "https://img.example.org/logo.png"
    /// let width = try await client.images.withImage(at: url) { $0.info.width }
    /// ```
    public func withImage<Result>(
        at url: String, _ body: (LeasedImage) async throws -> Result
    ) async throws -> Result { try await withImage(LarderImageRequest(url), body) }

    /// Gets an image. Its file is kept until ``LeasedImage/release()`` is called, the last copy of the returned value is
    /// released, or the connection to the agent ends.
    ///
    /// ```swift
    /// let image = try await client.images.get(LarderImageRequest("https://img.example.org/logo.png", policy: .cacheFirst))
    /// defer { image.release() }
    /// print(image.path, image.info.mediaType, image.freshness)
    /// ```
    ///
    /// ``withImage(_:_:)`` keeps the image until its closure returns. An image that was obtained twice has two leases.
    /// - Parameters:
    ///   - request: the image, and how it may be obtained.
    ///   - onProgress: called with the progress of the download that the request waits for, at most ten times per
    ///     second. It is not called for an image that is cached. It must not block, because it runs on the client's
    ///     event loop.
    /// - Throws: `remote` with `notFound` if the origin does not have the image or, under the policy `cacheOnly`, if the
    ///   image is not cached; with `timeout` if the deadline passes. `invalidArgument` if a duration of the request is out
    ///   of range.
    public func get(
        _ request: LarderImageRequest, onProgress: (@Sendable (DownloadProgress) -> Void)? = nil
    ) async throws(LarderClientError) -> LeasedImage {
        try CallArguments.check(
            request.deadline, "deadline", .positiveUpToOneDay, advice: "pass nil for the timeout of the client")
        try Self.check(maximumAge: request.maximumAge)
        var parameters = request.parameters
        parameters.reportsProgress = onProgress != nil
        // The agent enforces the deadline. The client waits longer, and its own timeout is only for an agent that does
        // not respond at all.
        let replyTimeout = request.deadline.flatMap { deadline in
            client.configuration.timeout.map { deadline + $0 }
        }
        let report = onProgress.map { report -> @Sendable (ImageGet.Progress) -> Void in
            { report(DownloadProgress($0)) }
        }
        let (result, connection) = try await client.send(
            ImageGet.self, parameters, timeout: replyTimeout, purpose: .lease(report))
        return LeasedImage(result, url: request.url, connection: connection)
    }

    /// Gets the image at a URL with the default policy, as ``get(_:onProgress:)`` does.
    ///
    /// ```swift
    /// let url = "https://img.example.org/logo.png"
    /// let image = try await client.images.get(at: url)
    /// ```
    public func get(
        at url: String, onProgress: (@Sendable (DownloadProgress) -> Void)? = nil
    ) async throws(LarderClientError) -> LeasedImage { try await get(LarderImageRequest(url), onProgress: onProgress) }

    /// Returns the cached state of an image, and the decision that the agent would make for ``get(_:onProgress:)``.
    /// This method never uses the network and takes no lease.
    ///
    /// ```swift
    /// let decision = try await client.images.peek("https://img.example.org/logo.png", explain: true)
    /// for rule in decision.rules { print(rule) }
    /// ```
    /// - Parameters:
    ///   - request: the image, and the policy and maximum age that the decision is made for. The other properties have
    ///     no effect.
    ///   - explain: whether the result lists the rules that led to the decision.
    public func peek(
        _ request: LarderImageRequest, explain: Bool = false
    ) async throws(LarderClientError) -> ImageDecision {
        try Self.check(maximumAge: request.maximumAge)
        let parameters = ImagePeek.Parameters(
            request.reference, policy: request.policy.wire, maximumAgeSeconds: request.maximumAge?.wholeSeconds,
            explains: explain)
        return ImageDecision(try await client.call(ImagePeek.self, parameters), request)
    }

    /// Pins an image: it is not evicted until it is unpinned, not even after a restart. The agent downloads the image
    /// first if it is not cached.
    ///
    /// ```swift
    /// let image = try await client.images.pin(at: "https://img.example.org/logo.png")
    /// print(image.width, image.height, image.byteCount)
    /// ```
    ///
    /// Needs the right `administer`.
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL.
    ///   - cacheKey: identifies the image in place of the query of the URL; nil to use the whole URL.
    /// - Returns: the properties of the image.
    /// - Throws: `remote` with `cacheFull` if the pinned images would take more than three quarters of the cache; also the
    ///   errors of ``get(_:onProgress:)``.
    @discardableResult
    public func pin(at url: String, cacheKey: String? = nil) async throws(LarderClientError) -> LarderImage {
        LarderImage(try await client.call(ImagePin.self, ImageReference(url: url, cacheKey: cacheKey)).image)
    }

    /// Stores the bytes of an image under a URL or a cache key. An image that is already cached there is replaced.
    ///
    /// The image must fit in a request line (`limits.lineBytes`), which by default allows about 780 KB.
    /// ``put(file:at:cacheKey:expectedDigest:lifetime:)`` stores larger images.
    ///
    /// ```swift
    /// let chart = "https://app.internal/charts/today.png"
    /// try await client.images.put([UInt8](png), at: chart, lifetime: .seconds(3600))
    /// ```
    /// - Parameters:
    ///   - bytes: the whole file.
    ///   - url: an absolute `http` or `https` URL. Its origin need not exist.
    ///   - cacheKey: identifies the image in place of the query of the URL; nil to use the whole URL.
    ///   - lifetime: how long the image is fresh, in whole seconds, rounded down, at most 3660 days; nil for a year.
    /// - Throws: `remote` with `imageRejected` if the bytes are not an acceptable image, or with `cacheFull`.
    @discardableResult
    public func put(
        _ bytes: [UInt8], at url: String, cacheKey: String? = nil, lifetime: Duration? = nil
    ) async throws(LarderClientError) -> LarderImage {
        let parameters = ImagePut.Parameters(
            ImageReference(url: url, cacheKey: cacheKey), .inline(bytes),
            lifetimeSeconds: try Self.seconds(lifetime: lifetime))
        return LarderImage(try await client.call(ImagePut.self, parameters).image)
    }

    /// Stores an image from a file under a URL or a cache key. An image that is already cached there is replaced.
    ///
    /// The image may have any size that the agent's settings allow. The descriptor of the file, or of a copy in memory,
    /// is passed to the agent over a separate connection. A target that imports `SystemPackage` depends on this product
    /// of swift-system.
    ///
    /// ```swift
    /// import SystemPackage
    ///
    /// let file = try FileDescriptor.open("/srv/charts/today.png", .readOnly, options: .closeOnExec)
    /// defer { try? file.close() }
    /// try await client.images.put(file: file, at: "https://app.internal/charts/today.png")
    /// ```
    /// - Parameters:
    ///   - file: a descriptor that is open for reading; it stays open. A file in memory (memfd_create(2)) is read from
    ///     its start and must not change until this method returns. Any other file, such as one on a disk or a pipe, is
    ///     first copied to memory from its current position, at most 1 GiB, by a separate thread.
    ///   - url: an absolute `http` or `https` URL. Its origin need not exist.
    ///   - cacheKey: identifies the image in place of the query of the URL; nil to use the whole URL.
    ///   - expectedDigest: the SHA-256 that the image must have; an image with another digest is rejected.
    ///   - lifetime: how long the image is fresh, in whole seconds, rounded down, at most 3660 days; nil for a year.
    /// - Throws: `remote` with `imageRejected` if the file is not an acceptable image or, with the reason `fileChanged`,
    ///   if it changed while it was read; `invalidArgument` if the descriptor is not open or the file cannot be copied;
    ///   `remote` with `invalidParams` if a file in memory is not open for reading.
    @discardableResult
    public func put(
        file: FileDescriptor, at url: String, cacheKey: String? = nil, expectedDigest: LarderImage.Digest? = nil,
        lifetime: Duration? = nil
    ) async throws(LarderClientError) -> LarderImage {
        try await put(
            file: file.rawValue, at: url, cacheKey: cacheKey, expectedDigest: expectedDigest, lifetime: lifetime)
    }

    /// Stores an image from a file, as the public method does.
    @discardableResult
    package func put(
        file: CInt, at url: String, cacheKey: String? = nil, expectedDigest: LarderImage.Digest? = nil,
        lifetime: Duration? = nil
    ) async throws(LarderClientError) -> LarderImage {
        let parameters = ImagePut.Parameters(
            ImageReference(url: url, cacheKey: cacheKey), .descriptor, expectedDigest: expectedDigest?.wire,
            lifetimeSeconds: try Self.seconds(lifetime: lifetime))
        return LarderImage(try await put(file: file, parameters))
    }

    private static func check(maximumAge: Duration?) throws(LarderClientError) {
        try CallArguments.check(
            maximumAge, "maximumAge", .upToTenYears, advice: "pass nil for any age that the policy permits")
    }

    private static func seconds(lifetime: Duration?) throws(LarderClientError) -> Int {
        try CallArguments.check(lifetime, "lifetime", .upToTenYears, advice: "pass nil for a year")
        return lifetime?.wholeSeconds ?? ImagePut.Parameters.defaultLifetime
    }

    /// Stores an image from a file.
    package func put(
        file: CInt, _ parameters: ImagePut.Parameters
    ) async throws(LarderClientError) -> WireImage {
        let call = DescriptorCall(client)
        let content = try await MemoryFile.containing(file)
        return try await call.send(ImagePut.self, parameters, passing: content.descriptor).result.image
    }

    /// Unpins an image. It stays cached until it is evicted.
    ///
    /// ```swift
    /// try await client.images.unpin(at: "https://img.example.org/logo.png")
    /// ```
    ///
    /// Needs the right `administer`.
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL.
    ///   - cacheKey: identifies the image in place of the query of the URL; nil to use the whole URL.
    /// - Returns: whether the image was pinned.
    @discardableResult
    public func unpin(at url: String, cacheKey: String? = nil) async throws(LarderClientError) -> Bool {
        try await client.call(ImageUnpin.self, ImageReference(url: url, cacheKey: cacheKey)).wasPinned
    }

    /// Removes an image from the cache, pinned or not. The file stays while a client has a lease on it.
    ///
    /// ```swift
    /// let removed = try await client.images.remove(at: "https://img.example.org/logo.png")
    /// print(removed.count == 1 ? "removed \(removed.byteCount) bytes" : "not cached")
    /// ```
    ///
    /// Needs the right `administer`.
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL.
    ///   - cacheKey: identifies the image in place of the query of the URL; nil to use the whole URL.
    /// - Returns: whether the image was cached, and its size in bytes.
    @discardableResult
    public func remove(at url: String, cacheKey: String? = nil) async throws(LarderClientError) -> RemovedImages {
        try await remove(ImageRemove.Parameters(.image(ImageReference(url: url, cacheKey: cacheKey))))
    }

    /// Removes from the cache all images, pinned or not, whose URL begins with a prefix. A file stays while a client
    /// has a lease on it.
    ///
    /// ```swift
    /// try await client.images.remove(prefix: "https://img.example.org/thumbnails/", dryRun: true).count
    /// ```
    ///
    /// Needs the right `administer`.
    /// - Parameters:
    ///   - prefix: an origin, or an origin and the beginning of a path.
    ///   - dryRun: true to count the images without removing them.
    /// - Returns: the number of images and the bytes of their files.
    @discardableResult
    public func remove(prefix: String, dryRun: Bool = false) async throws(LarderClientError) -> RemovedImages {
        try await remove(ImageRemove.Parameters(.prefix(prefix), isDryRun: dryRun))
    }

    private func remove(_ parameters: ImageRemove.Parameters) async throws(LarderClientError) -> RemovedImages {
        let result = try await client.call(ImageRemove.self, parameters)
        return RemovedImages(count: result.images, byteCount: result.bytes)
    }

    /// Removes all images from the cache. A file stays while a client has a lease on it.
    ///
    /// ```swift
    /// try await client.images.clear(includingPinned: true)
    /// ```
    ///
    /// Needs the right `administer`.
    /// - Parameter includingPinned: true to remove pinned images as well.
    /// - Returns: the number of removed images and the bytes of their files.
    @discardableResult
    public func clear(includingPinned: Bool = false) async throws(LarderClientError) -> RemovedImages {
        let result = try await client.call(ImageClear.self, ImageClear.Parameters(includesPinned: includingPinned))
        return RemovedImages(count: result.removed, byteCount: result.bytes)
    }

    /// Returns one page of the cached images. The last page is the one without a `next`.
    ///
    /// ```swift
    /// var page = try await client.images.list()
    /// while let next = page.next { page = try await client.images.list(after: next) }
    /// ```
    /// - Parameters:
    ///   - after: the `next` of the previous page; nil for the first page.
    ///   - limit: the maximum number of images, from 1 to 1,000. A page can have fewer and still not be the last.
    ///   - prefix: lists only images whose URL begins with this text: an origin, or an origin and the beginning of a
    ///     path. Nil for all images.
    public func list(
        after: String? = nil, limit: Int = 100, prefix: String? = nil
    ) async throws(LarderClientError) -> CachedImages {
        try CallArguments.check(limit, "limit", in: 1...ImageList.Parameters.longestPage)
        let parameters = ImageList.Parameters(after: after, limit: limit, prefix: prefix)
        return CachedImages(try await client.call(ImageList.self, parameters))
    }

    /// The downloads of images that are in progress, those of other users included: the current list, and then each new
    /// one. See ``ImageDownloadLists``.
    ///
    /// ```swift
    /// for try await downloads in client.images.downloads {
    ///     for download in downloads { print(download.id, download.receivedBytes, download.totalBytes ?? 0) }
    /// }
    /// ```
    public var downloads: ImageDownloadLists { ImageDownloadLists(client: client) }

    /// Cancels a download. All requests that wait for it fail with `cancelled`.
    ///
    /// ```swift
    /// let requests = try await client.images.cancel(download: 17)
    /// ```
    ///
    /// Needs the right `administer`.
    /// - Parameter id: the ID from ``downloads``.
    /// - Returns: the number of requests that fail because of this.
    /// - Throws: `remote` with `notFound` if the download has ended.
    @discardableResult
    public func cancel(download id: Int) async throws(LarderClientError) -> Int {
        try CallArguments.check(
            id, "download", in: 1...CallArguments.integers.upperBound,
            advice: "pass the ID of a download from `downloads`")
        return try await client.call(ImageCancel.self, ImageCancel.Parameters(id)).requests
    }

    /// Downloads images into the cache. Returns a stream of the progress, whose last element is a summary.
    ///
    /// ```swift
    /// for try await step in client.images.prefetch(urls.map { LarderImageRequest($0) }) {
    ///     switch step {
    ///     case .progress(let progress): print("\(progress.done + progress.failed) of \(progress.total)")
    ///     case .finished(let summary): for failure in summary.failures { print(failure.error) }
    ///     }
    /// }
    /// ```
    ///
    /// The request starts when the stream is iterated. An image that fails is counted in the summary and does not end
    /// the stream.
    /// - Parameters:
    ///   - images: the images, at least 1 and at most 10,000. Only their URLs, cache keys and digests have an effect.
    ///   - concurrency: the number of simultaneous downloads, from 1 to 64; nil for 16. The agent's settings limit
    ///     downloads as well. The stream throws `invalidArgument` for another number, of downloads or of images.
    public func prefetch(_ images: [LarderImageRequest], concurrency: Int? = nil) -> ImagePrefetchSteps {
        let items = images.map { ImagePrefetch.Item($0.reference, expectedDigest: $0.expectedDigest?.wire) }
        return ImagePrefetchSteps(client: client, parameters: ImagePrefetch.Parameters(items, concurrency: concurrency))
    }

    /// Downloads the images at URLs into the cache, as ``prefetch(_:concurrency:)`` does.
    ///
    /// ```swift
    /// for try await step in client.images.prefetch(at: ["https://img.example.org/logo.png"]) { print(step) }
    /// ```
    public func prefetch(at urls: [String], concurrency: Int? = nil) -> ImagePrefetchSteps {
        prefetch(urls.map { LarderImageRequest($0) }, concurrency: concurrency)
    }
}

extension LarderClientError {
    /// The error for an image whose lease ended with the connection while the image was in use.
    fileprivate static let leaseLost = LarderClientError(
        .disconnected, "the connection broke while an image was in use, so its file may have been removed",
        advice: "request the image again")
}

extension LarderClient {
    /// The image cache.
    public var images: ImageClient { ImageClient(client: self) }
}

/// The calls of ``ImageClient`` that view models use. A type of a test that conforms to this protocol replaces the agent.
///
/// ```swift
/// struct FixedImages: ImageCalls {
///     let image: LeasedImage
///
///     func get(
///         _ request: LarderImageRequest, onProgress: (@Sendable (DownloadProgress) -> Void)?
///     ) async throws(LarderClientError) -> LeasedImage { image }
/// }
/// ```
public protocol ImageCalls: Sendable {
    /// The options that say how long to wait before an image is requested again.
    var configuration: LarderClient.Configuration { get }
    /// Gets an image; see ``ImageClient/get(_:onProgress:)``.
    func get(
        _ request: LarderImageRequest, onProgress: (@Sendable (DownloadProgress) -> Void)?
    ) async throws(LarderClientError) -> LeasedImage
}

extension ImageCalls {
    /// The default options.
    public var configuration: LarderClient.Configuration { LarderClient.Configuration() }

    /// Gets an image; see ``ImageClient/get(_:onProgress:)``.
    public func get(_ request: LarderImageRequest) async throws(LarderClientError) -> LeasedImage {
        try await get(request, onProgress: nil)
    }

    /// Gets the image at a URL with the default policy; see ``ImageClient/get(at:onProgress:)``.
    public func get(at url: String) async throws(LarderClientError) -> LeasedImage {
        try await get(LarderImageRequest(url))
    }
}

extension ImageClient: ImageCalls {
    /// The options of the client.
    public var configuration: LarderClient.Configuration { client.configuration }
}
