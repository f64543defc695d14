public import LarderProtocol

/// The methods `image.…`, as ``LarderClient/images``.
///
/// All throw ``LarderClientError``: `remote` with the agent's own error where it has one, such as `offline`,
/// `imageRefused` or `forbiddenAddress`, whose ``WireError/reason`` says more.
public struct ImageCommands: Sendable {
    let client: LarderClient

    /// Runs `body` with an image; its file stays until `body` has ended.
    ///
    /// ```swift
    /// let bytes = try await client.images.image(at: "https://img.example.org/logo.png") { image in
    ///     try Data(contentsOf: URL(filePath: image.path), options: .alwaysMapped)
    /// }
    /// ```
    ///
    /// However many processes ask, the agent fetches an image once. The lease is given back however `body` ends.
    /// - Parameters:
    ///   - url: an absolute `http` or `https` URL.
    ///   - policy: cache or network.
    ///   - maximumAge: the oldest image that will do, in whole seconds; nil for what the policy says.
    ///   - expectedDigest: what the bytes must be; anything else is refused.
    ///   - cacheKey: what it is looked up by instead of the URL, within the URL's origin: for signed URLs.
    ///   - priority: who comes first where requests wait for the network.
    ///   - deadline: how long the agent may take; nil for as long as a call of this client may take.
    ///   - body: what to do with the file.
    /// - Throws: what ``get(_:policy:maximumAge:expectedDigest:cacheKey:priority:deadline:)`` and `body` throw; and
    ///   `disconnected` where the connection broke meanwhile, for the lease ended with it and the file may have gone.
    public func image<Result>(
        at url: String, policy: ImagePolicy = .default, maximumAge: Duration? = nil,
        expectedDigest: WireDigest? = nil, cacheKey: String? = nil, priority: ImageGet.Priority = .normal,
        deadline: Duration? = nil, _ body: (LeasedImage) async throws -> Result
    ) async throws -> Result {
        let image = try await get(
            url, policy: policy, maximumAge: maximumAge, expectedDigest: expectedDigest, cacheKey: cacheKey,
            priority: priority, deadline: deadline)
        defer { release(image) }
        let result: Result
        do {
            result = try await body(image)
        } catch {
            guard image.connection.isOpen else { throw LarderClientError.leaseLost(because: error) }
            throw error
        }
        guard image.connection.isOpen else { throw LarderClientError.leaseLost(because: nil) }
        return result
    }

    /// Gets an image, whose file stays until ``release(_:)`` or until the connection ends.
    ///
    /// ``image(at:policy:maximumAge:expectedDigest:cacheKey:priority:deadline:_:)`` releases it by itself. One that was
    /// got twice has to be released twice.
    /// - Throws: `remote` with `notFound` where the policy wants no network and nothing is held that would do.
    public func get(
        _ url: String, policy: ImagePolicy = .default, maximumAge: Duration? = nil,
        expectedDigest: WireDigest? = nil, cacheKey: String? = nil, priority: ImageGet.Priority = .normal,
        deadline: Duration? = nil
    ) async throws(LarderClientError) -> LeasedImage {
        let parameters = ImageGet.Parameters(
            ImageReference(url: url, cacheKey: cacheKey), policy: policy, maximumAgeSeconds: maximumAge?.wholeSeconds,
            expectedDigest: expectedDigest, leaseSeconds: 0, priority: priority,
            deadlineMilliseconds: deadline?.milliseconds)
        // The agent keeps the deadline; what is added here is for an agent that does not answer at all.
        let patience = deadline.flatMap { deadline in client.configuration.timeout.map { deadline + $0 } }
        let (result, connection) = try await client.send(ImageGet.self, parameters, timeout: patience, purpose: .lease)
        return LeasedImage(result, connection: connection)
    }

    /// Gives an image back, without waiting. The lease of a connection that is over has ended with it.
    public func release(_ image: LeasedImage) {
        image.connection.release(image.lease)
    }

    /// What is held of an image, and what ``get(_:policy:maximumAge:expectedDigest:cacheKey:priority:deadline:)`` would
    /// do about it. It never asks the network.
    ///
    /// ```swift
    /// let peek = try await client.images.peek("https://img.example.org/logo.png", explain: true)
    /// for rule in peek.rules ?? [] { print(rule.name, rule.text) }
    /// ```
    /// - Parameter explain: whether the rules are told that led to the decision.
    public func peek(
        _ url: String, policy: ImagePolicy = .default, maximumAge: Duration? = nil, cacheKey: String? = nil,
        explain: Bool = false
    ) async throws(LarderClientError) -> ImagePeek.Result {
        let parameters = ImagePeek.Parameters(
            ImageReference(url: url, cacheKey: cacheKey), policy: policy, maximumAgeSeconds: maximumAge?.wholeSeconds,
            explains: explain)
        return try await client.call(ImagePeek.self, parameters)
    }

    /// Keeps an image until it is unpinned, over restarts too; it is fetched first where it is not held.
    @discardableResult
    public func pin(_ url: String, cacheKey: String? = nil) async throws(LarderClientError) -> WireImage {
        try await client.call(ImagePin.self, ImageReference(url: url, cacheKey: cacheKey)).image
    }

    /// Stores the bytes of an image under a URL or a key of the caller. They replace what is held there.
    ///
    /// With the agent's default settings (`limits.lineBytes`) they may have some 780 KB;
    /// ``put(_:file:cacheKey:expectedDigest:lifetime:)`` takes larger images.
    ///
    /// ```swift
    /// try await client.images.put("https://app.internal/charts/today.png", [UInt8](png), lifetime: .seconds(3600))
    /// ```
    /// - Parameters:
    ///   - bytes: the whole file.
    ///   - lifetime: how long it is fresh; nil for a year.
    @discardableResult
    public func put(
        _ url: String, _ bytes: [UInt8], cacheKey: String? = nil, lifetime: Duration? = nil
    ) async throws(LarderClientError) -> WireImage {
        let parameters = ImagePut.Parameters(
            ImageReference(url: url, cacheKey: cacheKey), .inline(bytes),
            lifetimeSeconds: lifetime?.wholeSeconds ?? ImagePut.Parameters.defaultLifetime)
        return try await client.call(ImagePut.self, parameters).image
    }

    /// Stores an image of any size that the agent's settings allow, under a URL or a key of the caller. It replaces what is held
    /// there. The descriptor of the file, or of a copy in memory, is passed to the agent over a connection of its own.
    ///
    /// ```swift
    /// let file = open("/srv/charts/today.png", O_RDONLY | O_CLOEXEC)
    /// defer { close(file) }
    /// try await client.images.put("https://app.internal/charts/today.png", file: file)
    /// ```
    /// - Parameters:
    ///   - file: descriptor of a file that is open for reading. A file in memory (memfd_create(2)) is read from its start and
    ///     must not change until this returns. Any other file, such as one on a disk or a pipe, is copied to memory first, from
    ///     its position, at most 1 GiB. The descriptor stays open.
    ///   - expectedDigest: what the bytes must be; anything else is refused.
    ///   - lifetime: how long it is fresh; nil for a year.
    /// - Throws: `remote` with `imageRefused` and the reason `fileChanged` if the file changed while it was read, with
    ///   `invalidParams` for a descriptor that is not open for reading; `invalidArgument` if the file cannot be copied.
    @discardableResult
    public func put(
        _ url: String, file: CInt, cacheKey: String? = nil, expectedDigest: WireDigest? = nil, lifetime: Duration? = nil
    ) async throws(LarderClientError) -> WireImage {
        let parameters = ImagePut.Parameters(
            ImageReference(url: url, cacheKey: cacheKey), .descriptor, expectedDigest: expectedDigest,
            lifetimeSeconds: lifetime?.wholeSeconds ?? ImagePut.Parameters.defaultLifetime)
        let call = DescriptorCall(socket: client.socket, configuration: client.configuration)
        let content = try await MemoryFile.holding(file)
        return try await call.send(ImagePut.self, parameters, passing: content.descriptor).result.image
    }

    /// Takes a pin away; the image stays as others do, until its place is needed.
    /// - Returns: whether it was pinned.
    @discardableResult
    public func unpin(_ url: String, cacheKey: String? = nil) async throws(LarderClientError) -> Bool {
        try await client.call(ImageUnpin.self, ImageReference(url: url, cacheKey: cacheKey)).wasPinned
    }

    /// Takes an image out of the cache, pinned or not. Who has a lease keeps the file.
    /// - Returns: whether it was held, and its size.
    @discardableResult
    public func remove(_ url: String, cacheKey: String? = nil) async throws(LarderClientError) -> ImageRemove.Result {
        try await client.call(
            ImageRemove.self, ImageRemove.Parameters(.image(ImageReference(url: url, cacheKey: cacheKey))))
    }

    /// Takes all images out of the cache whose URLs begin with a text, pinned or not. A client with a lease keeps the file.
    ///
    /// ```swift
    /// try await client.images.remove(prefix: "https://img.example.org/thumbnails/", dryRun: true).images
    /// ```
    /// - Parameters:
    ///   - prefix: an origin, or an origin and the beginning of a path.
    ///   - dryRun: whether the images are only counted.
    /// - Returns: how many, and the bytes of their files.
    @discardableResult
    public func remove(prefix: String, dryRun: Bool = false) async throws(LarderClientError) -> ImageRemove.Result {
        try await client.call(ImageRemove.self, ImageRemove.Parameters(.prefix(prefix), isDryRun: dryRun))
    }

    /// Takes all images out of the cache. Who has a lease keeps the file.
    /// - Parameter includingPinned: whether those that are pinned go too.
    /// - Returns: how many went, and their size.
    @discardableResult
    public func clear(includingPinned: Bool = false) async throws(LarderClientError) -> ImageClear.Result {
        try await client.call(ImageClear.self, ImageClear.Parameters(includesPinned: includingPinned))
    }

    /// One page of what is held.
    ///
    /// ```swift
    /// var page = try await client.images.list()
    /// while let next = page.next { page = try await client.images.list(after: next) }
    /// ```
    /// - Parameters:
    ///   - after: the `next` of the page before; nil for the first.
    ///   - limit: how many at most, up to 1,000.
    ///   - prefix: the beginning of their URLs: an origin, or an origin and the beginning of a path; nil for all.
    public func list(
        after: String? = nil, limit: Int = ImageList.Parameters.defaultPage, prefix: String? = nil
    ) async throws(LarderClientError) -> ImageList.Result {
        try await client.call(ImageList.self, ImageList.Parameters(after: after, limit: limit, prefix: prefix))
    }

    /// Brings many images into the cache, and tells how it goes.
    ///
    /// ```swift
    /// for try await step in client.images.prefetch(urls.map { .init(ImageReference(url: $0)) }) {
    ///     switch step {
    ///     case .progress(let progress): print("\(progress.done + progress.failed) of \(progress.total)")
    ///     case .finished(let summary): for failure in summary.failures { print(failure.error) }
    ///     }
    /// }
    /// ```
    /// - Parameters:
    ///   - images: at most 10,000, the most that one request may have.
    ///   - concurrency: how many to fetch at once, from 1 to 64; nil for 16. The agent's settings limit downloads as well.
    public func prefetch(_ images: [ImagePrefetch.Item], concurrency: Int? = nil) -> ImagePrefetchSteps {
        ImagePrefetchSteps(
            client: client, parameters: ImagePrefetch.Parameters(images, concurrency: concurrency))
    }
}

extension LarderClientError {
    /// The lease of an image ended with its connection, before it was given back.
    fileprivate static func leaseLost(because error: (any Error)?) -> LarderClientError {
        LarderClientError(
            .disconnected,
            "the connection broke while an image was in use, so that its file may have gone"
                + (error.map { " (\($0))" } ?? ""),
            advice: "get it again")
    }
}

/// An image as a file that stays while the lease on it lasts.
public struct LeasedImage: Sendable {
    /// The absolute path of the file. It is read, never written.
    public let path: String
    /// What it is, as its bytes say.
    public let image: WireImage
    /// How good it is.
    public let freshness: ImageFreshness
    /// Where it came from.
    public let source: ImageGet.Source
    /// How long ago the origin made or validated it (RFC 9111, section 4.2.3).
    public let age: Duration

    let lease: Int
    let connection: Connection

    init(_ result: ImageGet.Result, connection: Connection) {
        path = result.path
        image = result.image
        freshness = result.freshness
        source = result.source
        age = .seconds(result.ageSeconds)
        lease = result.lease
        self.connection = connection
    }
}
