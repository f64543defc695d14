import LarderClientCore
import LarderJSON
import LarderProtocol

/// Prefetches the chunks of a list in order, one at a time, and displays the progress.
actor PrefetchRun {
    private(set) var tally: PrefetchTally
    private var report: PrefetchReport
    private let chunks: [ArraySlice<ImagePrefetch.Item>]
    private let concurrency: Int?
    private let display: ProgressDisplay

    /// The interval at which the display is redrawn even without new progress.
    private static let tick = Duration.milliseconds(500)
    /// The maximum number of unanswered requests for the state of an image.
    private static let peeks = 16

    /// Creates a run.
    /// - Parameters:
    ///   - list: the complete list.
    ///   - chunks: the images of the list, one chunk per request.
    init(
        _ list: PrefetchList, chunks: [ArraySlice<ImagePrefetch.Item>], concurrency: Int?,
        screen: ProgressDisplay.Screen
    ) {
        report = PrefetchReport(list)
        self.chunks = chunks
        self.concurrency = concurrency
        tally = PrefetchTally(failed: list.rejections.count, total: list.items.count + list.rejections.count)
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
            let report = try await fetchChunks(over: client)
            ticking.cancel()
            await display.end()
            return report
        } catch {
            ticking.cancel()
            await display.end()
            throw error
        }
    }

    private func fetchChunks(over client: LarderClient) async throws -> PrefetchReport {
        let evictions = await evictions(client)
        for chunk in chunks {
            do {
                try await fetch(chunk, over: client)
            } catch let error as LarderClientError {
                // Only a request for a single image can exceed the agent's maximum line length, because of the image's
                // long URL or key. Chunks of several images are made to fit. The client itself rejects a request of
                // more than 1 MiB.
                let remote =
                    error.code == .invalidArgument ? WireError(.lineTooLong, error.reason) : error.remoteError?.wire
                guard chunk.count == 1, let item = chunk.first, let remote, remote.code == .lineTooLong else {
                    throw error
                }
                let failure = ImagePrefetch.Failure(url: item.image.url, error: remote)
                await add(
                    ImagePrefetch.Result(total: 1, fetched: 0, cached: 0, failed: 1, bytes: 0, failures: [failure]))
            }
        }
        let uncached = try await uncached(over: client)
        let hasEvictions = await self.evictions(client) != evictions || evictions == nil
        report.add(uncached: uncached, hasEvictions: hasEvictions)
        return report
    }

    /// The number of images that the agent has evicted since its start; nil if this user may not see it.
    private func evictions(_ client: LarderClient) async -> Int? {
        try? await client.call(AgentStats.self, NoParameters()).images?.evictions
    }

    /// Counts the images of the list that are not cached, because they failed or were evicted for later ones.
    private func uncached(over client: LarderClient) async throws -> Int {
        try await withThrowingTaskGroup(of: Bool.self) { group in
            var count = 0
            for (index, item) in chunks.joined().enumerated() {
                if index >= Self.peeks, try await group.next() == false { count += 1 }
                group.addTask { try await Self.isCached(item, over: client) }
            }
            for try await isCached in group where !isCached { count += 1 }
            return count
        }
    }

    private static func isCached(_ item: ImagePrefetch.Item, over client: LarderClient) async throws -> Bool {
        do throws(LarderClientError) {
            return try await client.images.peek(LarderImageRequest(item.image.url, cacheKey: item.image.cacheKey))
                .cached
                != nil
        } catch {
            // The agent has rejected this image before, for example because its URL is too long.
            guard let remote = error.remoteError, !remote.code.isRetryable else { throw error }
            return false
        }
    }

    private func fetch(_ chunk: ArraySlice<ImagePrefetch.Item>, over client: LarderClient) async throws {
        let before = report.result
        let parameters = ImagePrefetch.Parameters(Array(chunk), concurrency: concurrency)
        for try await step in ImagePrefetchSteps(client: client, parameters: parameters) {
            switch step {
            case .progress(let now):
                await show(
                    done: before.fetched + before.cached + now.done, failed: before.failed + now.failed,
                    bytes: before.bytes + now.byteCount)
            case .finished(let result): await add(result.wire)
            }
        }
    }

    private func add(_ result: ImagePrefetch.Result) async {
        report.add(result)
        let sum = report.result
        await show(done: sum.fetched + sum.cached, failed: sum.failed, bytes: sum.bytes)
    }

    private func show(done: Int, failed: Int, bytes: Int) async {
        tally = PrefetchTally(done: done, failed: failed, bytes: bytes, total: tally.total)
        await display.show(tally)
    }
}

/// The result of a prefetch: the sums over all requests, and the rejected lines or elements of the list.
struct PrefetchReport {
    /// The counts of images. `total` and `failed` include the rejected lines or elements of the list; `failures`
    /// contains only failures that the agent reported.
    private(set) var result: ImagePrefetch.Result
    /// The number of images that did not fail and were evicted before the end.
    private(set) var evicted = 0
    /// The number of failed images of which the cache still has a copy, which its origin did not confirm.
    private(set) var outdated = 0
    /// The number of images that did not fail and were not kept, although no image was evicted.
    private(set) var unkept = 0
    private let unit: PrefetchList.Unit
    private let rejections: [PrefetchList.Rejection]

    init(_ list: PrefetchList) {
        unit = list.unit
        rejections = list.rejections
        let count = rejections.count
        result = ImagePrefetch.Result(total: count, fetched: 0, cached: 0, failed: count, bytes: 0, failures: [])
    }

    /// Adds the result of one request, which contained a chunk of the images.
    mutating func add(_ chunk: ImagePrefetch.Result) {
        result.total += chunk.total
        result.fetched += chunk.fetched
        result.cached += chunk.cached
        result.failed += chunk.failed
        result.bytes += chunk.bytes
        result.failures += chunk.failures
        result.failuresOmitted += chunk.failuresOmitted
    }

    /// Adds the number of images that are not cached after the last request, including those that failed.
    /// - Parameter hasEvictions: whether the agent may have evicted images during the prefetch.
    mutating func add(uncached: Int, hasEvictions: Bool = true) {
        let failed = result.failed - rejections.count
        let count = max(0, uncached - failed)
        outdated = max(0, failed - uncached)
        (evicted, unkept) = hasEvictions ? (count, 0) : (0, count)
    }

    /// The failure with which the command ends; nil if all images are cached.
    var failure: Failure? {
        guard result.failed > 0 || evicted > 0 || unkept > 0 else { return nil }
        let total = Human.count(result.total, "image", "images")
        if unkept > 0 {
            let failed = result.failed > 0 ? "\(result.failed) of \(total) failed, and " : ""
            return Failure(
                .failure,
                "\(failed)\(unkept) of \(total) were not kept, because their origins forbid caching (Cache-Control: "
                    + "no-store, or Vary: *), or because they were removed; allow caching at the origins, or shorten the list"
            )
        }
        guard evicted > 0 else {
            return Failure(isOnlyRoomMissing ? .cacheFull : .failure, "\(result.failed) of \(total) failed")
        }
        let failed = result.failed > 0 ? "\(result.failed) of \(total) failed, and " : ""
        return Failure(
            isOnlyRoomMissing ? .cacheFull : .failure,
            "\(failed)\(evicted) of \(total) were evicted again, because the cache has no room for all; raise images.maximumBytes and images.maximumImages in the settings, free disk space, or shorten the list"
        )
    }

    /// Whether no image failed for any reason other than missing space.
    private var isOnlyRoomMissing: Bool {
        rejections.isEmpty && result.failures.allSatisfy { $0.error.code == .cacheFull }
    }

    /// One line of JSON: the result as in the protocol, the numbers of evicted images as `evicted` and of others that are
    /// not cached as `notKept`, and the rejected lines or elements as `rejected`.
    var json: String {
        let rejected = rejections.map { rejection -> JSONValue in
            .object([(unit.rawValue, .int(rejection.number)), ("detail", .string(rejection.reason))])
        }
        let members = JSONValue.building { result.write(to: &$0) }.members.map { $0 }
        return JSONValue.object(
            members + [("evicted", .int(evicted)), ("notKept", .int(unkept)), ("rejected", .array(rejected))]
        ).compactText
    }

    /// The result for people: a line with the counts, and a line for each failure that the agent reported, without a
    /// final line end. Failures with equal reasons are grouped: the lines of their images follow a line with the reason.
    func text(milliseconds: Int) -> String {
        var failed = "\(result.failed) failed"
        if !rejections.isEmpty {
            failed += " (\(Human.count(rejections.count, unit.rawValue, unit.rawValue + "s")) rejected)"
        }
        if outdated > 0 { failed += " (\(outdated) of them cached, but not confirmed by the origin)" }
        var parts = [
            "\(result.fetched) downloaded (\(Human.bytes(result.bytes)))", "\(result.cached) already cached", failed,
        ]
        if evicted > 0 { parts.append("\(evicted) evicted again") }
        if unkept > 0 { parts.append("\(unkept) not kept") }
        var lines = [
            "\(Human.count(result.total, "image", "images")) in \(Human.elapsed(milliseconds: milliseconds)): "
                + parts.joined(separator: ", ")
        ]
        for group in groups {
            if group.count == 1 {
                lines += group.map { "  \($0.url.printable)  \($0.error.description.printable)" }
            } else {
                lines += group.prefix(1).map { "  \(group.count) images: \(Self.reason($0.error).printable)" }
                lines += group.map { "    \($0.url.printable)" }
            }
        }
        if result.failuresOmitted > 0 { lines.append("  and \(result.failuresOmitted) more") }
        return lines.joined(separator: "\n")
    }

    /// The failures with equal reasons, in the order of the first failure of each group.
    private var groups: [[ImagePrefetch.Failure]] {
        var groups: [[ImagePrefetch.Failure]] = []
        var places: [[UInt8]: Int] = [:]
        for failure in result.failures {
            // The numbers of bytes in the details of missing space differ between images.
            let isRoomMissing = failure.error.code == .cacheFull
            let key = Array((isRoomMissing ? failure.error.code.name : Self.reason(failure.error)).utf8)
            if let place = places[key] {
                groups[place].append(failure)
            } else {
                places[key] = groups.count
                groups.append([failure])
            }
        }
        return groups
    }

    /// The text of an error without the URL at the start of its detail.
    private static func reason(_ error: WireError) -> String {
        let words = error.detail.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].hasPrefix("http://") || words[0].hasPrefix("https://") else {
            return error.description
        }
        return "\(error.code.message): \(words[1])"
    }
}
