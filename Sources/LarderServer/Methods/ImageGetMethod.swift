import LarderJSON
import LarderImages
import LarderProtocol
import NIOCore

/// `image.get` and `image.release`: images and the leases on them. A cached image is answered at once, any other by a task.
struct ImageGetMethod {
    let connection: Connection

    private var loop: LoopContext { connection.loop }
    private var output: ReplyWriter { connection.output }

    /// Answers an `image.get` that came before with another id.
    /// - Returns: false if it did not, if the cache has no usable image, or if the line is anything else.
    func serveKnown(_ template: RequestTemplate) -> Bool {
        guard let images = loop.server.images, let known = loop.caches.imageQueries.occupant(of: template),
            known.value.settingsVersion == images.settingsVersion, known.matches(template),
            case let query = known.value,
            loop.server.authorizer.decide(imageOf: query.restriction, connection.rights) == nil,
            let image = query.hit(images)
        else { return false }
        loop.traffic.requestsTotal += 1
        if reply(image, query, images, id: template.id) { return true }
        let admission = Admission(ImageGet.name, .image(url: query.request.url, .images))
        do throws(WireError) {
            try serveLater(RequestID(template), query, images, held: image, admission, in: nil)
        } catch {
            output.reply(id: RequestID(template), error, in: nil)
        }
        return true
    }

    func serve(_ request: MethodTable.OwnRequest<ImageGet>) throws(WireError) {
        // A notification has no reply that could name the lease.
        guard let id = request.id else {
            request.slot?.leaveEmpty()
            return
        }
        let images = try loop.server.imageService()
        let query = ImageQuery(request.parameters, images)
        if query.wantsDescriptor, request.slot != nil {
            throw WireError(
                .invalidParams, "a batch has one reply, with which no descriptors come; ask for them outside the batch")
        }
        if let template = request.template { loop.caches.imageQueries.store(query, for: template) }
        let hit = query.hit(images)
        if let hit, request.slot == nil {
            var text = id.text
            if text.withUTF8({ reply(hit, query, images, id: UnsafeRawBufferPointer($0)) }) { return }
        }
        // The rest of a batch is carried out after its client disconnected.
        if connection.phase == .closed {
            if let hit { images.cache.release(hit.digest) }
            return
        }
        try serveLater(id, query, images, held: hit, request.admission, in: request.slot)
    }

    /// Returns a lease once.
    func release(_ parameters: ImageRelease.Parameters) throws(WireError) -> ImageRelease.Result {
        let cache = try loop.server.imageService().cache
        let (isFound, released) = connection.leases.release(parameters.lease)
        if let released { cache.release(released) }
        return ImageRelease.Result(released: isFound)
    }

    // MARK: At once

    /// Writes the reply with an image, whose reference passes to the lease.
    /// - Returns: false if a task has to answer: it opens the file for a descriptor, and reports that there are too many
    ///   leases.
    private func reply(
        _ image: CachedImage, _ query: ImageQuery, _ images: ImageService, id: UnsafeRawBufferPointer
    ) -> Bool {
        guard !query.wantsDescriptor, connection.leases.hasRoom(for: image.digest) else { return false }
        let lease = takeLease(on: image, query, images)
        ReplyCache.appendHead(id: id, to: &loop.output.writer)
        loop.output.writer.rawUnframed(",\"result\":")
        query.constant(for: image, images.cache).withUnsafeBytes { loop.output.writer.raw($0) }
        ImageGet.Result.writeRest(
            freshness: image.freshness.rawValue, source: image.source.rawValue, ageSeconds: image.age, lease: lease,
            hasDescriptor: false, to: &loop.output.writer)
        loop.output.writer.rawUnframed("}")
        loop.output.writer.endLine()
        return true
    }

    /// Takes a lease, to which the reference of the image passes.
    private func takeLease(on image: CachedImage, _ query: ImageQuery, _ images: ImageService) -> Int {
        let seconds = query.leaseSeconds ?? images.leaseSeconds
        let end = seconds == 0 ? NIODeadline.distantFuture : loop.eventLoop.now + .seconds(Int64(seconds))
        let (number, takesReference) = connection.leases.take(image.digest, until: end)
        if !takesReference { images.cache.release(image.digest) }
        if end < .distantFuture { loop.leaseTimer.watch(until: end) }
        return number
    }

    // MARK: Later

    /// Answers once the image is cached and, for a descriptor, its file is open.
    /// - Throws: if there is no place for the request; the reference of the held image is returned then.
    private func serveLater(
        _ id: RequestID, _ query: ImageQuery, _ images: ImageService, held: CachedImage?, _ admission: Admission,
        in slot: BatchSlot?
    ) throws(WireError) {
        let ticket: PendingRequests.Ticket
        do throws(WireError) {
            ticket = try connection.dispatcher.begin(id, admission, .connection, in: slot)
        } catch {
            if let held { images.cache.release(held.digest) }
            throw error
        }
        let bound = NIOLoopBound((self, query), eventLoop: loop.eventLoop)
        var image = query.request
        image.user = UInt32(clamping: connection.principal.credentials.uid)
        let (request, wantsFile, eventLoop) = (image, query.wantsDescriptor, loop.eventLoop)
        let task = Task.immediate {
            let result: Result<ImageDelivery, WireError>
            do throws(WireError) {
                result = .success(try await images.deliver(request, held: held, opening: wantsFile))
            } catch {
                result = .failure(error)
            }
            eventLoop.execute {
                let (method, query) = bound.value
                method.delivered(ticket, result, query, images)
            }
        }
        connection.pending[ticket]?.onCancel = { _ in task.cancel() }
        if let deadline = query.deadline {
            connection.dispatcher.expire(
                ticket, after: .milliseconds(Int64(deadline)),
                with: WireError(.timeout, "the image was not there within \(deadline) ms"))
        }
    }

    private func delivered(
        _ ticket: PendingRequests.Ticket, _ result: Result<ImageDelivery, WireError>, _ query: ImageQuery,
        _ images: ImageService
    ) {
        let request = connection.pending[ticket]
        switch result {
        case .failure(let error):
            let reason = error.code == .cancelled ? request?.cancellation : nil
            connection.complete(ticket, .failure(reason ?? error))
        case .success(let delivery):
            // The deadline has passed, or the client is gone: no lease keeps the reference.
            guard let request else { return images.cache.release(delivery.image.digest) }
            if let refusal = refusal(of: delivery, to: request, query, images) {
                images.cache.release(delivery.image.digest)
                return connection.complete(ticket, .failure(refusal))
            }
            let image = delivery.image
            let lease = takeLease(on: image, query, images)
            if let file = delivery.file.flatMap({ PassedFile($0, for: connection.usage.user) }) {
                _ = output.pass(file)
            }
            connection.complete(
                ticket,
                .success(
                    ImageGet.Result(
                        path: images.cache.path(of: image.digest), image: WireImage(image),
                        freshness: ImageFreshness(rawValue: image.freshness.rawValue),
                        source: ImageGet.Source(rawValue: image.source.rawValue), ageSeconds: image.age, lease: lease,
                        hasDescriptor: delivery.file != nil)))
        }
    }

    /// Why a delivered image is not passed on: the settings, the rights or the client's resources may have changed since
    /// the request came.
    private func refusal(
        of delivery: ImageDelivery, to request: PendingRequest, _ query: ImageQuery, _ images: ImageService
    ) -> WireError? {
        if let denial = request.denial { return denial }
        if request.slot?.batch.isFull ?? false { return BatchReply.noRoom }
        if let denial = images.denial(of: query.request.url, to: connection.rights) { return denial.error }
        guard connection.leases.hasRoom(for: delivery.image.digest) else {
            return WireError(
                .limitExceeded,
                "a connection may have \(ImageLeases.max) leases; give some back by image.release")
        }
        guard delivery.file != nil, let refusal = connection.usage.user.refusalOfFile(connection.usage.limits)
        else { return nil }
        loop.traffic.refused.requests += 1
        return refusal
    }
}
