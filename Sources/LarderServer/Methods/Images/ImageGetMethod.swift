import LarderImages
import LarderJSON
import LarderProtocol
import NIOCore

extension ImageGet: Method {
    /// Only the reply contains the number of the lease. A notification (a request without an id) has no reply, so its
    /// client could not release the lease.
    static var needsReply: Bool { true }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let images = try call.server.imageService()
        let query = ImageQuery(call.parameters, images)
        if query.wantsDescriptor, call.isInBatch {
            throw WireError(
                .invalidParams, "the reply to a batch carries no descriptors; send the request outside the batch")
        }
        if let template = call.template { call.loop.caches.imageQueries.store(query, for: template) }
        let request = ImageGetRequest(connection: call.connection, query: query, images: images)
        let hit = query.hit(images)
        if let hit, !query.wantsDescriptor { return .now(try request.result(hit, hasDescriptor: false)) }
        return .task(request.taskReply(cached: hit, id: call.id))
    }
}

/// Answers a repeated `image.get` without parsing it. Repeated lines may differ in their id.
struct CachedImageReply {
    let connection: Connection

    /// Writes the reply, if that is possible.
    /// - Returns: false if the line is new, if the peer may not have the image, or if the cache has no usable image.
    ///   The caller then parses the line.
    func write(for template: RequestTemplate) -> Bool {
        let loop = connection.loop
        guard let images = loop.server.images, let known = loop.caches.imageQueries.occupant(of: template),
            known.value.settingsVersion == images.settingsVersion, known.matches(template),
            case let query = known.value,
            loop.server.authorizer.decide(imageOf: query.restriction, connection.rights) == nil,
            let image = query.hit(images)
        else { return false }
        loop.traffic.requestsTotal += 1
        let request = ImageGetRequest(connection: connection, query: query, images: images)
        do throws(WireError) {
            if query.wantsDescriptor {
                let id = RequestID(template)
                try connection.requests.start(
                    request.taskReply(cached: image, id: id), id: id, nil,
                    Admission(method: ImageGet.name, requirement: .image(url: query.request.url, .images)),
                    ImageGet.lifetime, in: nil)
            } else {
                write(image, request, lease: try request.takeLease(on: image), id: template.id)
            }
        } catch {
            connection.output.reply(id: RequestID(template), error, in: nil)
        }
        return true
    }

    private func write(_ image: CachedImage, _ request: ImageGetRequest, lease: Int, id: UnsafeRawBufferPointer) {
        let loop = connection.loop
        ReplyCache.appendHead(id: id, then: ReplyCache.resultName, to: &loop.output.writer)
        request.query.constant(for: image, request.images).withUnsafeBytes { loop.output.writer.raw($0) }
        ImageGet.Result.writeRest(
            freshness: image.freshness.rawValue, source: image.source.rawValue, ageSeconds: image.age, lease: lease,
            hasDescriptor: false, to: &loop.output.writer)
        loop.output.writer.endLine(after: "}")
    }
}

/// An `image.get` that is being served.
private struct ImageGetRequest {
    let connection: Connection
    let query: ImageQuery
    let images: ImageService

    /// Takes a lease, and returns the result.
    /// - Throws: the errors of ``takeLease(on:)``
    func result(_ image: CachedImage, hasDescriptor: Bool) throws(WireError) -> ImageGet.Result {
        let lease = try takeLease(on: image)
        return ImageGet.Result(
            path: images.view.path(of: image.digest), image: WireImage(image),
            freshness: ImageFreshness(rawValue: image.freshness.rawValue),
            source: ImageGet.Source(rawValue: image.source.rawValue), ageSeconds: image.age, lease: lease,
            hasDescriptor: hasDescriptor)
    }

    /// Takes a lease, and returns its number. Either the lease keeps the caller's reference to the image, or this method
    /// releases the reference.
    /// - Throws: `limitExceeded` if the image needs another lease, and the connection or its user has the maximum number
    func takeLease(on image: CachedImage) throws(WireError) -> Int {
        let loop = connection.loop
        let seconds = query.leaseSeconds ?? images.leaseSeconds
        let end = seconds == 0 ? NIODeadline.distantFuture : loop.eventLoop.now + .seconds(Int64(seconds))
        let number: Int
        if let known = connection.leases.extend(image.digest, until: end) {
            images.view.release(image.digest)
            number = known
        } else {
            do throws(WireError) {
                if connection.leases.isFull {
                    throw WireError(
                        .limitExceeded,
                        "this connection has \(ImageLeases.max) leases, the maximum; release some with image.release")
                }
                try connection.counted { usage throws(UsageRefusal) in try usage.user.addLease(usage.limits) }
            } catch {
                images.view.release(image.digest)
                throw error
            }
            number = connection.leases.add(image.digest, until: end)
        }
        if end < .distantFuture { loop.leaseTimer.watch(until: end) }
        return number
    }

    /// A reply that waits until the image is cached and, if the client requested a descriptor, until the file of the
    /// image is open.
    /// - Parameters:
    ///   - cached: a cached image; nil to request the image. The caller's reference to the cached image is either
    ///     released by the task or kept by a lease.
    ///   - id: the id of the request
    func taskReply(cached: CachedImage?, id: RequestID?) -> TaskReply<ImageGet.Result> {
        var request = query.request
        request.user = UInt32(clamping: connection.credentials.uid)
        let (image, images, wantsFile) = (request, images, query.wantsDescriptor)
        let notifier = query.reportsProgress ? ProgressNotifier<ImageGet.Progress>(to: connection) : nil
        let relay = notifier.map { ProgressRelay(to: $0, on: connection.loop.eventLoop) }
        var report: ProgressReport?
        if let relay, let id {
            report = { progress in
                relay.pass(
                    ImageGet.Progress(
                        request: id, receivedBytes: progress.receivedBytes, totalBytes: progress.totalBytes,
                        isShared: progress.isShared))
            }
        }
        var reply = TaskReply<ImageGet.Result>(size: .small) { [report] () async throws(WireError) in
            try await images.deliver(image, cached: cached, opening: wantsFile, reporting: report)
        } finish: { delivery, request in
            let result = finish(delivery, request)
            // The client gets the last progress before the reply if the image is delivered.
            notifier?.end(with: (try? result.get()) == nil ? nil : relay?.last)
            return result
        }
        reply.onRefusal = { if let cached { images.view.release(cached.digest) } }
        reply.deadline = query.deadline.map { deadline in
            ReplyDeadline(
                time: .milliseconds(Int64(deadline)),
                error: WireError(.timeout, "the image was not available within \(deadline) ms (deadlineMilliseconds)"),
                onExpiry: { notifier?.end(with: nil) })
        }
        return reply
    }

    private func finish(
        _ delivery: Result<ImageDelivery, WireError>, _ request: PendingRequest?
    ) -> Result<ImageGet.Result, WireError> {
        switch delivery {
        case .failure(let error):
            return .failure(error.code == .cancelled ? request?.cancellation ?? error : error)
        case .success(let delivery):
            let image = delivery.image
            // `request` is nil if the request is no longer pending: its deadline has passed, or the client has
            // disconnected.
            if let refusal = request.map({ refusal(of: delivery, to: $0) }) ?? .disconnected {
                images.view.release(image.digest)
                return .failure(refusal)
            }
            return Result { () throws(WireError) in
                let result = try self.result(image, hasDescriptor: delivery.file != nil)
                if let file = delivery.file.flatMap({ PassedFile($0, for: connection.usage.user) }) {
                    _ = connection.output.pass(file)
                }
                return result
            }
        }
    }

    /// Returns the error if a delivered image must be withheld; otherwise nil. The settings, the rights or the client's
    /// usage may have changed since the request arrived.
    private func refusal(of delivery: ImageDelivery, to request: PendingRequest) -> WireError? {
        if let denial = request.denial { return denial }
        if request.slot?.batch.isFull ?? false { return BatchReply.noRoom }
        if let denial = images.denial(of: query.request.url, to: connection.rights) { return denial.error }
        guard delivery.file != nil,
            let refusal = connection.usage.user.refusalOfFile(connection.usage.limits)
        else { return nil }
        connection.loop.traffic.refused.requests += 1
        return refusal
    }
}
