import Testing

@testable import LarderImages

@Suite("Waiting for disk space")
struct SpaceWaitTests {
    /// Runs a body with a small cache whose running downloads wait for their origin.
    ///
    /// - Parameter body: receives the IDs of the downloads, oldest first
    private func withDownloads(
        _ count: Int, bytes: Int = 3000, _ body: (CacheFixture, [TransferID]) async throws -> Void
    ) async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: bytes, freeBytes: 0) }) { fixture in
            fixture.origin.pause()
            let tasks = (1...count).map { number in Task { await fixture.code(url(number)) } }
            await fixture.until { fixture.origin.requests.count == count }
            try await body(fixture, await fixture.cache.transferIDs)
            fixture.origin.resume()
            for task in tasks { #expect(await task.value == .offline) }
            #expect(await fixture.cache.spaceWaiters == 0)
            #expect(await fixture.cache.isSpaceSettled)
        }
    }

    /// Writes an image of 1,000 bytes for a download, waiting for space if necessary.
    private func writeImage(_ number: Int, for id: TransferID, _ fixture: CacheFixture) async throws(ImageError)
        -> BlobWriter
    {
        let writer = try fixture.cache.disk.writers.begin()
        let bytes = picture(number)
        let space = SpaceRetry(id: id, space: fixture.cache, blocking: CacheFixture.blocking)
        try await space.run { () throws(ImageError) in try writer.append(bytes) }
        return writer
    }

    /// A writer with `bytes` of reserved space.
    private func reserve(_ bytes: Int, _ fixture: CacheFixture) throws -> BlobWriter {
        let writer = try fixture.cache.disk.writers.begin()
        try writer.append(picture(1000, size: bytes))
        return writer
    }

    private func waitForWaiters(_ count: Int, _ fixture: CacheFixture) async {
        await fixture.until { await fixture.cache.spaceWaiters == count }
    }

    @Test("a download that waits for space resumes when another download ends or its own task is cancelled")
    func waits() async throws {
        let shortage = SpaceShortage(bytes: 0, count: 1, taken: 0)
        try await withDownloads(2) { fixture, downloads in
            let cancelled = Task { try await fixture.cache.reclaim(shortage, for: downloads[0]) }
            await waitForWaiters(1, fixture)
            cancelled.cancel()
            let wasWoken = try await cancelled.value
            #expect(!wasWoken)
            let waiting = Task { try await fixture.cache.reclaim(shortage, for: downloads[0]) }
            await waitForWaiters(1, fixture)
            // The youngest download discards its bytes instead of waiting. It starts again when another download has
            // ended.
            let isRepeated = try await fixture.cache.reclaim(shortage, for: downloads[1])
            #expect(!isRepeated)
            let restart = Task { await fixture.cache.restart(downloads[1]) }
            let resumed = try await waiting.value
            #expect(resumed)
            await waitForWaiters(1, fixture)
            fixture.origin.resume()
            #expect(await restart.value)
        }
    }

    @Test("the only download does not wait for space")
    func alone() async throws {
        try await withDownloads(1) { fixture, downloads in
            let shortage = SpaceShortage(bytes: 0, count: 1, taken: 0)
            let isRepeated = try await fixture.cache.reclaim(shortage, for: downloads[0])
            #expect(!isRepeated)
        }
    }

    @Test("a put that needs space waits for the end of the only download")
    func putWaits() async throws {
        try await withDownloads(1) { fixture, _ in
            let reserved = try reserve(2500, fixture)
            let put = Task { try await fixture.cache.put(fixture.request(url(9)), .bytes(picture(9)), lifetime: 60) }
            await waitForWaiters(1, fixture)
            reserved.discard()
            fixture.origin.resume()
            #expect(try await put.value.bytes == 1000)
        }
    }

    @Test("a put that waits for space does not make a download discard its bytes, and gets space in order of arrival")
    func putAndDownloads() async throws {
        try await withDownloads(2) { fixture, downloads in
            let reserved = try reserve(2500, fixture)
            let put = Task { try await fixture.cache.put(fixture.request(url(9)), .bytes(picture(9)), lifetime: 60) }
            await waitForWaiters(1, fixture)
            let write = Task { try await writeImage(1, for: downloads[0], fixture) }
            await waitForWaiters(2, fixture)
            #expect(await fixture.cache.isSpaceSettled)
            reserved.discard()
            await fixture.cache.spaceFreed()
            try await write.value.discard()
            #expect(try await put.value.bytes == 1000)
        }
    }

    @Test("the end of a put resumes a download that waits for space")
    func endOfPut() async throws {
        try await withDownloads(2) { fixture, downloads in
            let shortage = SpaceShortage(bytes: 0, count: 1, taken: 0)
            let waiting = Task { try await fixture.cache.reclaim(shortage, for: downloads[0]) }
            await waitForWaiters(1, fixture)
            _ = try await fixture.cache.put(fixture.request(url(9)), .bytes(picture(9)), lifetime: 60)
            let resumed = try await waiting.value
            #expect(resumed)
        }
    }

    @Test("space for several waiters resumes all of them, oldest first")
    func chain() async throws {
        try await withDownloads(4) { fixture, downloads in
            let reserved = try reserve(2500, fixture)
            let writes = (0..<3).map { number in Task { try await writeImage(number, for: downloads[number], fixture) }
            }
            await waitForWaiters(3, fixture)
            reserved.discard()
            // Simulates the end of another download.
            await fixture.cache.spaceFreed()
            for write in writes { try await write.value.discard() }
        }
    }

    @Test(
        "the end of the last lease or pin of an image resumes a download that waits for space",
        arguments: [true, false])
    func release(_ isLease: Bool) async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 3000, freeBytes: 0) }) { fixture in
            fixture.origin.answer(picture(5, size: 1500))
            let lease = try await fixture.cache.image(fixture.request(url(5)))
            if !isLease {
                #expect(try await fixture.cache.pin(fixture.request(url(5)), true))
                fixture.cache.view.release(lease.digest)
            }
            let reserved = try reserve(1000, fixture)
            fixture.origin.fail()
            fixture.origin.pause()
            let tasks = (1...2).map { number in Task { await fixture.code(url(number)) } }
            await fixture.until { fixture.origin.requests.count == 3 }
            let downloads = await fixture.cache.transferIDs
            let write = Task { try await writeImage(1, for: downloads[0], fixture) }
            await waitForWaiters(1, fixture)
            if isLease {
                fixture.cache.view.release(lease.digest)
            } else {
                #expect(try await fixture.cache.pin(fixture.request(url(5)), false))
            }
            try await write.value.discard()
            #expect(fixture.cache.view.statistics.evictions == 1)
            reserved.discard()
            fixture.origin.resume()
            for task in tasks { #expect(await task.value == .offline) }
        }
    }

    @Test("a write waits, and does not fail, while other writers hold space that is reserved for new directories")
    func directories() async throws {
        try await withDownloads(2, bytes: 15_000) { fixture, downloads in
            await fixture.cache.disk.change { $0.ledger.newDirectoryBytes = 4096 }
            let holders = try (0..<3).map { _ in try reserve(400, fixture) }
            #expect(fixture.cache.view.statistics.reservedBytes == 3 * (400 + 4096))
            let write = Task { try await writeImage(1, for: downloads[0], fixture) }
            await waitForWaiters(1, fixture)
            for holder in holders { holder.discard() }
            await fixture.cache.spaceFreed()
            try await write.value.discard()
        }
    }
}
