import LarderClientCore

/// Prefetches the portions of a list in order, one at a time, and displays the progress.
actor PrefetchRun {
    private(set) var tally: PrefetchTally
    private var report: PrefetchReport
    private let portions: [ArraySlice<ImagePrefetch.Item>]
    private let concurrency: Int?
    private let display: ProgressDisplay

    /// The interval at which the display is redrawn even without new progress.
    private static let tick = Duration.milliseconds(500)
    /// The maximum number of unanswered requests for the state of an image.
    private static let peeks = 16

    /// Creates a run.
    /// - Parameters:
    ///   - list: the complete list.
    ///   - portions: the images of the list, one portion per request.
    init(
        _ list: PrefetchList, portions: [ArraySlice<ImagePrefetch.Item>], concurrency: Int?,
        screen: ProgressDisplay.Screen
    ) {
        report = PrefetchReport(list)
        self.portions = portions
        self.concurrency = concurrency
        tally = PrefetchTally(failed: list.refusals.count, total: list.items.count + list.refusals.count)
        display = ProgressDisplay(tally, on: screen)
    }

    /// Runs the prefetch. If the task is cancelled, the agent is asked to stop, and ``tally`` has the progress so far.
    func fetch(over client: LarderClient) async throws -> PrefetchReport {
        let ticking = Task { [display] in
            while true {
                try await Task.sleep(for: Self.tick)
                await display.draw()
            }
        }
        do {
            let report = try await fetchPortions(over: client)
            ticking.cancel()
            await display.end()
            return report
        } catch {
            ticking.cancel()
            await display.end()
            throw error
        }
    }

    private func fetchPortions(over client: LarderClient) async throws -> PrefetchReport {
        let evictions = await evictions(client)
        for portion in portions {
            do {
                try await fetch(portion, over: client)
            } catch let error as LarderClientError {
                // Only a request for a single image can exceed the agent's maximum line length, because of the image's
                // long URL or key. Portions of several images are made to fit.
                guard portion.count == 1, let item = portion.first, let remote = error.remoteError,
                    remote.code == .lineTooLong
                else { throw error }
                let failure = ImagePrefetch.Failure(url: item.image.url, error: remote)
                await add(
                    ImagePrefetch.Result(total: 1, fetched: 0, held: 0, failed: 1, bytes: 0, failures: [failure]))
            }
        }
        let uncached = try await uncached(over: client)
        let hasEvictions = await self.evictions(client) != evictions || evictions == nil
        report.add(uncached: uncached, hasEvictions: hasEvictions)
        return report
    }

    /// The number of images that the agent has evicted since its start; nil if this user may not see it.
    private func evictions(_ client: LarderClient) async -> Int? { try? await client.agent.stats().images?.evictions }

    /// Counts the images of the list that are not cached, because they failed or were evicted for later ones.
    private func uncached(over client: LarderClient) async throws -> Int {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            var count = 0
            for (index, item) in portions.joined().enumerated() {
                if index >= Self.peeks, try await group.next() == false { count += 1 }
                group.addTask { try await Self.isCached(item, over: client) }
            }
            for try await isCached in group where !isCached { count += 1 }
            return count
        }
    }

    private static func isCached(_ item: ImagePrefetch.Item, over client: LarderClient) async throws -> Bool {
        do throws(LarderClientError) {
            return try await client.images.peek(ImageRequest(item.image.url, cacheKey: item.image.cacheKey)).held != nil
        } catch {
            // The agent has refused this image before, for example because its URL is too long.
            guard let remote = error.remoteError, !remote.code.isRetryable else { throw error }
            return false
        }
    }

    private func fetch(_ portion: ArraySlice<ImagePrefetch.Item>, over client: LarderClient) async throws {
        let before = report.result
        for try await step in client.images.prefetch(Array(portion), concurrency: concurrency) {
            switch step {
            case .progress(let now):
                await show(
                    done: before.fetched + before.held + now.done, failed: before.failed + now.failed,
                    bytes: before.bytes + now.bytes)
            case .finished(let result): await add(result)
            }
        }
    }

    private func add(_ result: ImagePrefetch.Result) async {
        report.add(result)
        let sum = report.result
        await show(done: sum.fetched + sum.held, failed: sum.failed, bytes: sum.bytes)
    }

    private func show(done: Int, failed: Int, bytes: Int) async {
        tally = PrefetchTally(done: done, failed: failed, bytes: bytes, total: tally.total)
        await display.show(tally)
    }
}
