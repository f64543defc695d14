import LarderJSON
import LarderImages
import LarderProtocol
import NIOCore

/// Images and the leases on them. What the cache holds is answered here and now; what it does not, by a task.
extension Connection {
    /// Answers an `image.get` that came before in the same words.
    /// - Returns: false where it did not, or the cache does not hold what will do, or the message is anything else.
    func serveImageAgain(_ words: RequestTemplate) -> Bool {
        guard rights.general.contains(.images), let images = loop.server.images,
            let asked = loop.imageQueries.asked(by: words, settingsVersion: images.settingsVersion),
            asked.restriction.map(peer.mayHaveImages) ?? true,
            let image = asked.hit(images)
        else { return false }
        loop.traffic.requestsTotal += 1
        if reply(image, asked, images, id: words.id) { return true }
        let admission = Admission(ImageGet.name, .general(.images))
        do throws(WireError) {
            try deliverLater(RequestID(words), asked, images, held: image, admission, in: nil)
        } catch {
            reply(id: RequestID(words), error, in: nil)
        }
        return true
    }

    /// Answers an `image.get`.
    func serveImage(_ request: MethodTable.OwnRequest<ImageGet>) throws(WireError) {
        // Nobody would hear of the lease.
        guard let id = request.id else {
            request.place?.leaveEmpty()
            return
        }
        let images = try loop.server.imageService()
        let asked = ImageQuery(request.parameters, images)
        if let origin = asked.restriction, !peer.mayHaveImages(of: origin) { throw ImageService.denied(origin) }
        if asked.wantsDescriptor, request.place != nil {
            throw WireError(
                .invalidParams, "a batch has one reply, with which no descriptors come; ask for them outside the batch")
        }
        if let words = request.words { loop.imageQueries.keep(asked, for: words) }
        let hit = asked.hit(images)
        if let hit, request.place == nil {
            var text = id.text
            if text.withUTF8({ reply(hit, asked, images, id: UnsafeRawBufferPointer($0)) }) { return }
        }
        // The rest of a batch is carried out after its client disconnected.
        if isClosed {
            if let hit { images.cache.release(hit.digest) }
            return
        }
        try deliverLater(id, asked, images, held: hit, request.admission, in: request.place)
    }

    // MARK: Here and now

    /// Writes the reply with an image whose reference the lease takes over.
    /// - Returns: false if a task has to answer: it opens the file for a descriptor, and reports that there are too many
    ///   leases.
    private func reply(
        _ image: CachedImage, _ asked: ImageQuery, _ images: ImageService, id: UnsafeRawBufferPointer
    ) -> Bool {
        guard !asked.wantsDescriptor, leases.hasRoom(for: image.digest) else { return false }
        let lease = takeLease(on: image, asked, images)
        ReplyCache.appendHead(id: id, to: &loop.output)
        Self.append(",\"result\":", to: &loop.output)
        asked.constant(for: image, images.cache).withUnsafeBytes { loop.output.raw($0) }
        ImageGet.Result.writeRest(
            freshness: image.freshness.rawValue, source: image.source.rawValue, ageSeconds: image.age, lease: lease,
            hasDescriptor: false, to: &loop.output)
        Self.append("}", to: &loop.output)
        loop.output.endLine()
        return true
    }

    private static func append(_ text: StaticString, to writer: inout JSONWriter) {
        writer.rawUnframed(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    // MARK: Later

    /// Answers once the image is there and, where that is wanted, its file is open.
    /// - Throws: where there is no place for the request; the reference of the image that is held is given back then.
    private func deliverLater(
        _ id: RequestID, _ asked: ImageQuery, _ images: ImageService, held: CachedImage?,
        _ admission: Admission, in place: BatchSlot?
    ) throws(WireError) {
        let ticket: Int
        do throws(WireError) {
            ticket = try self.ticket(for: id, admission, in: place, endsWithConnection: true)
        } catch {
            if let held { images.cache.release(held.digest) }
            throw error
        }
        let connection = NIOLoopBound(self, eventLoop: loop.eventLoop)
        let what = NIOLoopBound(asked, eventLoop: loop.eventLoop)
        var image = asked.request
        image.user = UInt32(clamping: peer.uid)
        let (request, wantsFile, eventLoop) = (image, asked.wantsDescriptor, loop.eventLoop)
        let task = Task.immediate {
            let result: Result<ImageDelivery, WireError>
            do throws(WireError) {
                result = .success(try await images.deliver(request, held: held, opening: wantsFile))
            } catch {
                result = .failure(error)
            }
            eventLoop.execute { connection.value.delivered(ticket, result, what.value, images) }
        }
        inFlight[ticket]?.cancel = { reason in
            self.inFlight[ticket]?.givenUp = reason
            task.cancel()
        }
        guard let deadline = asked.deadline else { return }
        inFlight[ticket]?.deadline = eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(deadline))) {
            task.cancel()
            self.complete(ticket, .failure(WireError(.timeout, "the image was not there within \(deadline) ms")))
        }
    }

    private func delivered(
        _ ticket: Int, _ result: Result<ImageDelivery, WireError>, _ asked: ImageQuery, _ images: ImageService
    ) {
        let delivery: ImageDelivery
        switch result {
        case .success(let success): delivery = success
        case .failure(let error):
            let reason = error.code == .cancelled ? inFlight[ticket]?.givenUp : nil
            return complete(ticket, .failure(reason ?? error))
        }
        // The deadline passed, or the client is gone: nobody takes the reference over.
        guard let request = inFlight[ticket] else { return images.cache.release(delivery.image.digest) }
        if let refusal = request.denial ?? (request.place?.batch.isFull ?? false ? BatchReply.noRoom : nil) {
            images.cache.release(delivery.image.digest)
            return complete(ticket, .failure(refusal))
        }
        // The settings may have changed since the request came.
        do throws(WireError) {
            try images.check(peer, asked.request.url)
        } catch {
            images.cache.release(delivery.image.digest)
            return complete(ticket, .failure(error))
        }
        guard leases.hasRoom(for: delivery.image.digest) else {
            images.cache.release(delivery.image.digest)
            return complete(
                ticket,
                .failure(
                    WireError(
                        .limitExceeded,
                        "a connection may have \(ImageLeases.most) leases; give some back by image.release")))
        }
        if delivery.file != nil, let refusal = usage.refusalOfFile(limits) {
            images.cache.release(delivery.image.digest)
            loop.traffic.refused.requests += 1
            return complete(ticket, .failure(refusal))
        }
        let image = delivery.image
        let lease = takeLease(on: image, asked, images)
        if let file = delivery.file {
            flush()
            loop.passed = PassedFile(file, for: usage)
        }
        complete(
            ticket,
            .success(
                ImageGet.Result(
                    path: images.cache.path(of: image.digest), image: WireImage(image),
                    freshness: ImageFreshness(rawValue: image.freshness.rawValue),
                    source: ImageGet.Source(rawValue: image.source.rawValue), ageSeconds: image.age, lease: lease,
                    hasDescriptor: delivery.file != nil)))
    }

    // MARK: Leases

    /// Takes a lease, which takes over the reference of the image.
    private func takeLease(on image: CachedImage, _ asked: ImageQuery, _ images: ImageService) -> Int {
        let seconds = asked.leaseSeconds ?? images.leaseSeconds
        let end = seconds == 0 ? NIODeadline.distantFuture : loop.eventLoop.now + .seconds(Int64(seconds))
        let (number, takesReference) = leases.take(image.digest, until: end)
        if !takesReference { images.cache.release(image.digest) }
        if end < .distantFuture { loop.leaseTimer.watch(until: end) }
        return number
    }

    /// Gives a lease back once.
    /// - Returns: whether there is such a lease.
    func giveBackLease(_ number: Int) throws(WireError) -> Bool {
        let cache = try loop.server.imageService().cache
        let (isFound, released) = leases.giveBack(number)
        if let released { cache.release(released) }
        return isFound
    }

    /// Ends the leases whose time is over.
    func expireLeases(at now: NIODeadline) {
        for digest in leases.expire(at: now) { loop.server.images?.cache.release(digest) }
    }

    /// Ends all leases, because the client is gone.
    func endLeases() {
        for digest in leases.endAll() { loop.server.images?.cache.release(digest) }
    }
}
