import LarderImages
import LarderProtocol

extension ImagePeek: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, images) = (call.parameters, try call.server.imageService())
        let rights = call.connection.rights
        return .reply { () async throws(WireError) in
            let request = ImageRequest(
                parameters.image, policy: parameters.policy, maximumAge: parameters.maximumAgeSeconds)
            let result = try await WireError.from { () async throws(ImageError) in
                Result(
                    try await images.cache.explain(request), images, explains: parameters.explains, for: rights,
                    now: images.clock.now)
            }
            // The list of users who may have images of the origin may have changed since the request was admitted.
            if let denial = images.denial(of: request.url, to: rights) { throw denial.error }
            return result
        }
    }
}

extension ImagePin: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (image, images) = (call.parameters, try call.server.imageService())
        let rights = call.connection.rights
        return .reply { () async throws(WireError) in try await images.pin(image, for: rights) }
    }
}

extension ImageUnpin: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (request, cache) = (ImageRequest(call.parameters), try call.server.imageService().cache)
        return .imageReply { () async throws(ImageError) in
            let wasPinned = try await cache.explain(request).row?.isPinned ?? false
            let isStillCached = try await cache.pin(request, false)
            return Result(wasPinned: wasPinned && isStillCached)
        }
    }
}

extension ImageRemove: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, images) = (call.parameters, try call.server.imageService())
        return .imageReply { () async throws(ImageError) in try await images.remove(parameters) }
    }
}

extension ImageClear: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (includesPinned, cache) = (call.parameters.includesPinned, try call.server.imageService().cache)
        let rights = call.connection.rights
        return .imageReply { () async throws(ImageError) in
            let (images, bytes) = try await cache.clear(
                includingPinned: includesPinned, sparing: { !rights.mayHaveImages(of: $0) })
            return Result(removed: images, bytes: bytes)
        }
    }
}

extension ImageRelease: Method {
    /// Releases a lease once. Several `image.get` requests of a connection can share a lease. Unless it expires first,
    /// it ends when it has been released once for each of these requests.
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        _ = try call.server.imageService()
        let (isFound, released) = call.connection.leases.release(call.parameters.lease)
        if let released { call.connection.leasesEnded([released]) }
        return .now(Result(released: isFound))
    }
}

extension ImageService {
    /// Pins an image. Downloads it first if it is not cached.
    /// - Throws: the errors of `image.get`; `denied` also if the peer lost access to the images of the origin during
    ///   the download
    fileprivate func pin(
        _ reference: ImageReference, for rights: PeerRights
    ) async throws(WireError) -> ImagePin.Result {
        var request = ImageRequest(reference, policy: .cacheFirst)
        request.user = rights.user
        while true {
            let image = try await WireError.from { [request] () async throws(ImageError) in
                try await cache.image(request)
            }
            defer { cache.view.release(image.digest) }
            if let denial = denial(of: request.url, to: rights) { throw denial.error }
            let isPinned = try await WireError.from { [request] () async throws(ImageError) in
                try await cache.pin(request, true)
            }
            if isPinned { return ImagePin.Result(image: WireImage(image)) }
            // The image was not pinned, because it is not in the cache. If the image came from the cache, it was
            // removed before it could be pinned, and the next iteration downloads it. If it was downloaded, this method
            // fails instead of downloading it again, because its origin may forbid caching it.
            if image.source != .hit { throw WireError(Self.notKept) }
        }
    }

    /// Removes one image, or all images whose URL has a prefix.
    fileprivate func remove(_ parameters: ImageRemove.Parameters) async throws(ImageError) -> ImageRemove.Result {
        let isDryRun = parameters.isDryRun
        switch parameters.selection {
        case .image(let reference):
            let request = ImageRequest(reference)
            try await cache.opened()
            let cached = cache.view.peek(request, now: clock.now)
            let isRemoved = isDryRun ? false : try await cache.remove(request)
            let isSelected = isDryRun ? cached != nil : isRemoved
            return ImageRemove.Result(
                removed: isRemoved, images: isSelected ? 1 : 0, bytes: isSelected ? cached?.bytes ?? 0 : 0)
        case .prefix(let text):
            let (images, bytes) = try await cache.remove(try ImagePrefix(text), isTrial: isDryRun)
            return ImageRemove.Result(removed: images > 0 && !isDryRun, images: images, bytes: bytes)
        }
    }

    private static let notKept = ImageError(
        .notCached,
        "the image was downloaded but cannot be pinned, because it is not in the cache: its origin forbids caching it "
            + "(Cache-Control: no-store, or Vary: *), or it was removed again; allow caching at the origin, or get "
            + "the image for each use")
}

extension ImageDownloads: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (images, rights) = (try call.server.imageService(), call.connection.rights)
        // Each URL twice, once encoded, and 512 bytes for the other members.
        let size = ReplySize.measured {
            await images.cache.downloadsInProgress().reduce(0) { $0 + 2 * $1.url.utf8.count + 512 }
        }
        return .reply(size: size) { () async throws(WireError) in
            let downloads = await images.cache.downloadsInProgress()
            return Result(downloads: downloads.map { Download($0, images, for: rights) })
        }
    }
}

extension ImageCancel: Method {
    static var lifetime: PendingRequests.Lifetime { .committed }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (id, images) = (call.parameters.download, try call.server.imageService())
        return .reply { () async throws(WireError) in
            guard let requests = await images.cache.cancelDownload(id) else {
                throw WireError(.notFound, "no download has the ID \(id); it may have ended")
            }
            return Result(requests: requests)
        }
    }
}

extension ImagePrefetch: Method {
    /// The number of images that are downloaded concurrently if the request does not specify it. A setting may impose a
    /// lower maximum.
    private static let defaultConcurrency = 16

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, images) = (call.parameters, try call.server.imageService())
        let (connection, rights) = (call.connection, call.connection.rights)
        let concurrency = parameters.concurrency ?? defaultConcurrency
        let id = parameters.reportsProgress ? call.id : nil
        let notifier = ProgressNotifier<ImageProgress>(to: connection)
        let relay = ProgressRelay(to: notifier, on: call.loop.eventLoop)
        let prefetch = PrefetchJob(parameters.items, images, for: rights)
        var reply = TaskReply<Result>(size: .small) { () async throws(WireError) in
            await prefetch.run(concurrency: concurrency) { done, failed, bytes, total in
                if let id {
                    relay.pass(ImageProgress(request: id, done: done, failed: failed, bytes: bytes, total: total))
                }
            }
        } finish: { outcome, request in
            var last: ImageProgress?
            if let id, let result = try? outcome.get(), result.isWhole, connection.phase != .closed {
                last = ImageProgress(
                    request: id, done: result.done, failed: result.failed, bytes: result.bytes, total: result.total)
            }
            notifier.end(with: last)
            return result(of: outcome, cancellation: request?.cancellation)
        }
        // The failures refer to the URLs of the job, so they need no reservation that would last as long as the job.
        reply.retainedBytes = prefetch.retainedBytes
        return .task(reply)
    }

    private static func result(
        of outcome: Swift.Result<Result, WireError>, cancellation: WireError?
    ) -> Swift.Result<Result, WireError> {
        switch outcome {
        case .failure(let error): return .failure(error.code == .cancelled ? cancellation ?? error : error)
        case .success(let result) where result.isWhole: return .success(result)
        case .success(let result):
            let reason = cancellation ?? WireError(.cancelled, "the prefetch was cancelled")
            return .failure(
                WireError(
                    reason.code,
                    "\(reason.detail); \(result.done) of \(result.total) images are complete and stay cached"))
        }
    }
}

extension ImagePrefetch.Result {
    fileprivate var done: Int { fetched + cached }
    /// Whether all images were processed; false if the job was cancelled before that.
    fileprivate var isWhole: Bool { done + failed == total }
}

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
            content = .file(try receivedFile(call))
        }
        return .imageReply { () async throws(ImageError) in
            var image = ImageRequest(parameters.image)
            image.expectedDigest = parameters.expectedDigest.flatMap { BlobDigest(hex: $0.hex) }
            let stored = try await images.cache.put(image, content, lifetime: parameters.lifetimeSeconds)
            return Result(image: WireImage(stored))
        }
    }

    private static func receivedFile(_ call: MethodCall<Self>) throws(WireError) -> PassedInFile {
        switch call.descriptors?.take() {
        case .file(let file): return file
        case .several:
            throw WireError(.invalidParams, "the request came with several descriptors; pass one")
        case .lost:
            call.loop.traffic.refused.requests += 1
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
