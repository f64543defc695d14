internal import LarderUpstream
internal import Logging

extension ImageCache {
    // MARK: Waiting

    /// Waits for a flight: for one that is under way, or for its own.
    func wait(_ request: ImageRequest, _ place: ImagePlace, isUnconditional: Bool) async -> ImageFlight.Ending {
        lastNumber += 1
        let number = lastNumber
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                // A cancellation before now found no waiter to take away.
                guard !Task.isCancelled else { return continuation.resume(returning: .failed(Self.cancelled)) }
                join(number, request, place, isUnconditional, continuation)
            }
        } onCancel: {
            Task { await self.leave(number) }
        }
    }

    private func join(
        _ number: Int, _ request: ImageRequest, _ place: ImagePlace, _ isUnconditional: Bool,
        _ continuation: CheckedContinuation<ImageFlight.Ending, Never>
    ) {
        let known = flightsByKey[place.key]?.first { id in
            flights[id]?.serves(request, unconditionally: isUnconditional) ?? false
        }
        let id = known ?? begin(place, request, isUnconditional: isUnconditional, isBackground: false)
        flights[id]?.waiters[number] = ImageFlight.Waiter(
            request: request, continuation: continuation, isFirst: known == nil)
        flightOfWaiter[number] = id
        if known != nil, let flight = flights[id], flight.priority < request.priority {
            flights[id]?.priority = request.priority
            queue.raise(id, request.priority)
        }
        catalog.count { known == nil ? ($0.misses += 1) : ($0.joined += 1) }
        startFlights()
    }

    /// A waiter goes, because its task was cancelled. The flight ends with the last one.
    private func leave(_ number: Int) {
        guard let id = flightOfWaiter.removeValue(forKey: number),
            let waiter = flights[id]?.waiters.removeValue(forKey: number)
        else { return }
        waiter.continuation.resume(returning: .failed(Self.cancelled))
        guard let flight = flights[id] else { return }
        if flight.waiters.isEmpty, !flight.isBackground {
            // From now on nobody finds it: who asks again does not wait for something that is being given up.
            forget(id)
            if !queue.cancel(id) { flight.task?.cancel() }
            startFlights()
        } else if waiter.request.priority == flight.priority {
            let priority = flight.waiters.values.map(\.request.priority).max() ?? .low
            flights[id]?.priority = priority
            queue.lower(id, priority)
        }
    }

    /// Asks the origin about an image that was answered with although it is stale, if nobody does and nothing speaks
    /// against it.
    func askBehind(_ place: ImagePlace, _ url: String) {
        guard !isStopping, flightsByKey[place.key] == nil,
            failures.failure(
                of: place.exactKey(of: url), origin: place.address.origin, url: place.address.display,
                now: clock.now) == nil
        else { return }
        _ = begin(
            place, ImageRequest(url: url, priority: .low), isUnconditional: false, isBackground: true)
        startFlights()
    }

    // MARK: Beginning

    private func begin(
        _ place: ImagePlace, _ request: ImageRequest, isUnconditional: Bool, isBackground: Bool
    ) -> Int {
        lastNumber += 1
        let id = lastNumber
        let origin = place.address.origin
        flights[id] = ImageFlight(
            place: place, url: request.url, expectedDigest: request.expectedDigest, isUnconditional: isUnconditional,
            isBackground: isBackground, answersBefore: answers[origin, default: 0], priority: request.priority)
        flightsByKey[place.key, default: []].append(id)
        queue.add(id, origin: origin, priority: request.priority)
        return id
    }

    /// Starts whatever may start.
    func startFlights() {
        while let id = queue.next() { flights[id]?.task = Task { await self.fly(id) } }
        let (running, queued) = (queue.running, queue.queued)
        catalog.count { ($0.flights, $0.queued) = (running, queued) }
    }

    private func fly(_ id: Int) async {
        guard let flight = flights[id] else {
            queue.finish(id)
            return startFlights()
        }
        // What is held may be the answer in the end, so no room is made by its removal.
        let kept = catalog.entry(flight.place.key).flatMap { store.retain($0.digest) ? $0.digest : nil }
        let held = flight.isUnconditional ? nil : await holdForCondition(flight)
        let result: Result<ImageDownload.Outcome, ImageError>
        do throws(ImageError) {
            result = .success(try await download(id, flight, held))
        } catch {
            result = .failure(error)
        }
        queue.finish(id)
        if let flight = forget(id) {
            land(flight, held, result)
        } else if case .success(.published(let blob, _, _)) = result {
            // It was given up meanwhile: nothing of it stays.
            release(blob.digest)
        }
        if let held { release(held.digest) }
        if let kept { release(kept) }
        if flights.isEmpty { answers = [:] }
        endedFlights += 1
        wakeForRoom()
        startFlights()
    }

    /// The row that a conditional request is about, with a reference to its blob, whose bytes were seen to be right.
    private func holdForCondition(_ flight: ImageFlight) async -> ImageRow? {
        let index = index
        let key = flight.place.key
        guard let entry = catalog.entry(key), store.retain(entry.digest) else { return nil }
        do throws(ImageError) {
            // Opens the file: an origin that says that nothing changed is of no use where it is gone.
            try await verify(entry.digest)
            await loadDetails(entry)
            let row = try await indexQueue.submit { () throws(ImageError) in try index.row(key) }.value()
            if let row, row.digest == entry.digest, store.isVerified(entry.digest) { return row }
        } catch {
            // Then it is fetched whole.
            logger.debug("A row of the index could not be read", metadata: ["error": "\(error)"])
        }
        release(entry.digest)
        return nil
    }

    private func download(
        _ id: Int, _ flight: ImageFlight, _ held: ImageRow?
    ) async throws(ImageError) -> ImageDownload.Outcome {
        var headers: [(name: String, value: String)] = []
        if let credential = flight.place.origin?.credential {
            headers = try await blocking.run { () throws(ImageError) in try credential.fields() }
        }
        if Task.isCancelled { throw Self.cancelled }
        let (progress, catalog) = (flight.progress, catalog)
        return try await fetch(
            ImageFetch(
                url: flight.url, headers: headers, held: held?.response, expectedDigest: flight.expectedDigest,
                makeRoom: { (shortage) throws(ImageError) in try await self.makeRoom(for: id, shortage) },
                received: { count in
                    progress.add(count)
                    catalog.count { $0.downloadedBytes += count }
                }))
    }

    /// Makes a flight unknown.
    @discardableResult
    func forget(_ id: Int) -> ImageFlight? {
        guard let flight = flights.removeValue(forKey: id) else { return nil }
        flightsByKey[flight.place.key]?.removeAll { $0 == id }
        if flightsByKey[flight.place.key]?.isEmpty ?? false { flightsByKey[flight.place.key] = nil }
        for number in flight.waiters.keys { flightOfWaiter[number] = nil }
        return flight
    }
}
