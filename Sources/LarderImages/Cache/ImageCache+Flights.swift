internal import LarderHTTPSemantics
internal import LarderPlatform
internal import LarderUpstream
internal import Logging

extension ImageCache {
    // MARK: Waiting

    /// Waits for a flight: for one that is under way, or for its own.
    func wait(_ request: ImageRequest, _ place: CacheLocation, isUnconditional: Bool) async -> InFlightDownload.Ending {
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
        _ number: Int, _ request: ImageRequest, _ place: CacheLocation, _ isUnconditional: Bool,
        _ continuation: CheckedContinuation<InFlightDownload.Ending, Never>
    ) {
        let known = flightsByKey[place.key]?.first { id in
            flights[id]?.serves(request, unconditionally: isUnconditional) ?? false
        }
        if let known, let failure = flights[known]?.failure, answersStale(after: failure, request, place) {
            return continuation.resume(returning: .failed(failure))
        }
        let id = known ?? begin(place, request, isUnconditional: isUnconditional, isBackground: false)
        flights[id]?.waiters[number] = InFlightDownload.Waiter(
            request: request, continuation: continuation, isFirst: known == nil)
        flightOfWaiter[number] = id
        if known != nil, let flight = flights[id] {
            if flight.priority < request.priority {
                flights[id]?.priority = request.priority
                queue.raise(id, request.priority)
            }
            // A queued download counts for that of its users whose next download would start first.
            if !queue.isRunning(id), queue.isLessLoaded(request.user, than: flight.user) {
                assign(id, to: request.user)
            }
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
        // A download counts for a user who waits for it.
        if let flight = flights[id], !flight.isBackground, waiter.request.user == flight.user,
            !flight.waiters.values.contains(where: { $0.request.user == flight.user }),
            let other = flight.waiters.values.first
        {
            assign(id, to: other.request.user)
            startFlights()
        }
    }

    private func assign(_ id: Int, to user: UInt32?) {
        flights[id]?.user = user
        queue.assign(id, to: user)
    }

    /// An attempt of a flight failed, and another one follows. Requests that may be answered with a stale image do not wait
    /// for it: the flight continues in the background.
    func attemptFailed(_ id: Int, _ error: ImageError) {
        guard let flight = flights[id] else { return }
        flights[id]?.failure = error
        for (number, waiter) in flight.waiters where answersStale(after: error, waiter.request, flight.place) {
            flights[id]?.waiters[number] = nil
            flights[id]?.isBackground = true
            flightOfWaiter[number] = nil
            waiter.continuation.resume(returning: .failed(error))
        }
    }

    /// Whether a request may be answered with a stale image after this error.
    private func answersStale(after error: ImageError, _ request: ImageRequest, _ place: CacheLocation) -> Bool {
        let now = clock.now
        guard let entry = catalog.held(place, request.expectedDigest, now: now),
            entry.matches(catalog.fingerprint) == true
        else { return false }
        return request.cache.answersStale(after: error, StoredCandidate(freshness: entry.freshness), now: now)
    }

    /// Asks the origin about an image that was answered with although it is stale, if nobody does and nothing speaks
    /// against it.
    func askBehind(_ place: CacheLocation, _ request: ImageRequest) {
        let url = request.url
        guard !isStopping, flightsByKey[place.key] == nil,
            failures.failure(
                of: place.exactKey(of: url), origin: place.address.origin, url: place.address.display,
                now: clock.now) == nil
        else { return }
        _ = begin(
            place, ImageRequest(url: url, priority: .low, user: request.user), isUnconditional: false,
            isBackground: true)
        startFlights()
    }

    // MARK: Beginning

    private func begin(
        _ place: CacheLocation, _ request: ImageRequest, isUnconditional: Bool, isBackground: Bool
    ) -> Int {
        lastNumber += 1
        let id = lastNumber
        let origin = place.address.origin
        flights[id] = InFlightDownload(
            place: place, url: request.url, expectedDigest: request.expectedDigest, isUnconditional: isUnconditional,
            isBackground: isBackground, answersBefore: answers[origin, default: 0], user: request.user,
            priority: request.priority)
        flightsByKey[place.key, default: []].append(id)
        queue.add(id, origin: origin, user: request.user, priority: request.priority)
        return id
    }

    /// Starts the flights that may start, and stops the slowest one if a more urgent one waits for its place.
    func startFlights() {
        let now = clock.now
        while let id = queue.next() {
            if let flight = flights[id] { flights[id]?.start = (now, flight.progress.received) }
            flights[id]?.task = Task { await self.fly(id) }
        }
        if preempted == nil, let slowest = queue.preemption(speed: { flights[$0]?.speed(at: now) ?? .max }) {
            preempted = slowest
            flights[slowest]?.task?.cancel()
        }
        let demand = queue.demand
        for id in queue.runningIDs { flights[id]?.progress.isAwaited = queue.isAwaited(id, demand) }
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
        let result: Result<ImageDownloader.Outcome, ImageError>
        do throws(ImageError) {
            result = .success(try await download(id, flight, held))
        } catch {
            result = .failure(error)
        }
        if preempted == id { preempted = nil }
        if case .failure(let error) = result, error.code == .cancelled, flights[id] != nil, !isStopping {
            // It was stopped for a more urgent one and still has waiters.
            flights[id]?.task = nil
            queue.requeue(id)
        } else {
            finishFlight(id, held, result)
        }
        if let held { release(held.digest) }
        if let kept { release(kept) }
        if flights.isEmpty { answers = [:] }
        noteRoom(endOf: id)
        startFlights()
    }

    private func finishFlight(_ id: Int, _ held: ImageRow?, _ result: Result<ImageDownloader.Outcome, ImageError>) {
        queue.finish(id)
        yieldedRoom.remove(id)
        if let flight = forget(id) {
            land(flight, held, result)
        } else if case .success(.published(let blob, _, _)) = result {
            // It was given up meanwhile: nothing of it stays.
            release(blob.digest)
        }
    }

    /// The row that a conditional request is about, with a reference to its blob, whose bytes were seen to be right.
    private func holdForCondition(_ flight: InFlightDownload) async -> ImageRow? {
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
        _ id: Int, _ flight: InFlightDownload, _ held: ImageRow?
    ) async throws(ImageError) -> ImageDownloader.Outcome {
        var headers: [(name: String, value: String)] = []
        if let credential = flight.place.origin?.credential {
            headers = try await blocking.run { () throws(ImageError) in try credential.fields() }
        }
        if Task.isCancelled { throw Self.cancelled }
        let (progress, catalog) = (flight.progress, catalog)
        let order = DownloadOrder(
            url: flight.url, headers: headers, held: held?.response, expectedDigest: flight.expectedDigest,
            room: room(for: id),
            received: { count in
                progress.add(count)
                catalog.count { $0.downloadedBytes += count }
            },
            failed: { await self.attemptFailed(id, $0) }, isAwaited: { progress.isAwaited },
            limits: queue.limits)
        while true {
            do throws(ImageError) {
                return try await fetch(order)
            } catch {
                guard error.code == .noRoom, await resumeWithRoom(id) else { throw error }
            }
        }
    }

    /// Makes a flight unknown.
    @discardableResult
    func forget(_ id: Int) -> InFlightDownload? {
        guard let flight = flights.removeValue(forKey: id) else { return nil }
        flightsByKey[flight.place.key]?.removeAll { $0 == id }
        if flightsByKey[flight.place.key]?.isEmpty ?? false { flightsByKey[flight.place.key] = nil }
        for number in flight.waiters.keys { flightOfWaiter[number] = nil }
        return flight
    }
}
