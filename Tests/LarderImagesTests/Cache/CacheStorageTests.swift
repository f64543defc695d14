import Foundation
import LarderHTTPSemantics
import LarderImageFormats
import LarderUpstream
import Synchronization
import Testing

@testable import LarderImages

@Suite("Limits and lifetimes of the image cache")
struct CacheStorageTests {
    @Test("concurrent downloads never exceed the limits, and leased images are kept")
    func limits() async throws {
        let maximum = Mutex((bytes: 0, files: 0))
        try await withCache({ $0.space = SpaceLimits(bytes: 2_000_000, count: 12, freeBytes: 0) }) { fixture in
            fixture.serveMany(size: 40_000)
            let leased = try await fixture.cache.image(fixture.request(url(0)))
            let file = try await fixture.cache.openBlob(leased.digest)
            fixture.files.observe { [path = fixture.path] operation, _ in
                guard operation == "write" || operation == "publish" || operation == "remove" else { return }
                let disk = onDisk(path)
                maximum.withLock { $0 = (max($0.bytes, disk.bytes), max($0.files, disk.files)) }
            }
            await withTaskGroup(of: Void.self) { group in
                for number in 1...30 {
                    group.addTask {
                        // If other writers have reserved all space, a download may find none.
                        let code = await fixture.code(url(number))
                        #expect(code == nil || code == .cacheFull)
                    }
                }
            }
            fixture.files.observe(nil)
            try await fixture.settle()
            #expect(maximum.withLock { $0.bytes } <= 2_000_000)
            #expect(maximum.withLock { $0.files } <= 12)
            #expect(fixture.cache.view.statistics.evictions > 0)
            #expect(try file.read(at: 0, count: 50_000) == picture(0, size: 40_000))
            #expect(FileManager.default.fileExists(atPath: fixture.cache.view.path(of: leased.digest)))
            // There is a file for each row and for the leased image, and no other file.
            var named = Set(try await fixture.rows().map(\.digest.description))
            named.insert(leased.digest.description)
            #expect(Set(fixture.blobs.keys) == named)
            #expect(fixture.blobs.values.reduce(0, +) == fixture.cache.view.statistics.bytes)
            fixture.cache.view.release(leased.digest)
        }
    }

    @Test("pinned and leased images are not evicted; if all images are pinned or leased, a download fails")
    func nothingToEvict() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 1 << 30, count: 3, freeBytes: 0) }) { fixture in
            fixture.serveMany()
            for number in 1...3 { try await fixture.get(url(number)) }
            #expect(try await fixture.cache.pin(fixture.request(url(1)), true))
            #expect(try await fixture.cache.pin(fixture.request(url(9)), true) == false)
            let leases = try await [2, 3].asyncMap { try await fixture.cache.image(fixture.request(url($0))) }
            #expect(await fixture.code(url(4)) == .cacheFull)
            #expect(fixture.blobs.count == 3)
            for lease in leases { fixture.cache.view.release(lease.digest) }
            #expect(await fixture.code(url(4)) == nil)
            #expect(fixture.cache.view.peek(fixture.request(url(1)), now: fixture.clock.now) != nil)
            #expect(try await fixture.cache.pin(fixture.request(url(1)), false))
            #expect(try await fixture.rows().allSatisfy { !$0.isPinned })
        }
    }

    @Test("limits can be changed while the cache runs")
    func update() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            for number in 1...30 { try await fixture.get(url(number)) }
            var settings = fixture.settings
            settings.space = SpaceLimits(bytes: 10_000, count: 100, freeBytes: 0, bytesPerImage: 900)
            await fixture.cache.update(settings)
            #expect(fixture.blobs.count == 10)
            #expect(await fixture.code(url(50)) == .tooLarge)
            settings.space = SpaceLimits(bytes: 10_000, count: 4, freeBytes: 0)
            await fixture.cache.update(settings)
            #expect(fixture.blobs.count == 4)
            #expect(try await fixture.rows().count == 4)
            // A change of the limits clears cached failures.
            #expect(await fixture.code(url(50)) == nil)
            settings.images.excludedTypes = [.png]
            await fixture.cache.update(settings)
            #expect(await fixture.code(url(60)) == .excludedType)
        }
    }

    @Test("the number of rows is limited, even if all have the same file")
    func rowLimit() async throws {
        try await withCache({ $0.space = SpaceLimits(count: 5, freeBytes: 0) }) { fixture in
            fixture.origin.answer(picture(1))
            for number in 1...20 {
                try await fixture.get(url(number))
                #expect(fixture.cache.view.statistics.entries <= 5)
            }
            #expect(try await fixture.rows().count == 5)
            #expect(fixture.blobs.count == 1)
        }
    }

    @Test("an eviction of rows over the limit ends when the limit is raised")
    func raisedLimit() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1), [("Cache-Control", "max-age=1000")])
            for number in 1...100 { try await fixture.get(url(number)) }
            try await fixture.settle()
            let gate = DispatchSemaphore(value: 0)
            let occupation = Task.immediate { await fixture.cache.disk.wait(for: gate) }
            await fixture.cache.setLimit(10, fixture.settings)
            async let evicted: Void = fixture.cache.enforceLimits()
            await fixture.until { fixture.cache.view.statistics.entries < 100 }
            await fixture.cache.setLimit(100, fixture.settings)
            gate.signal()
            await occupation.value
            await evicted
            #expect(fixture.cache.view.statistics.entries == 100 - CatalogWriter.removalSlice)
        }
    }

    @Test("images older than maximumAge are not served and are removed, unless they are pinned")
    func age() async throws {
        try await withCache({ $0.maximumAge = 100 }) { fixture in
            fixture.origin.answer { .image(picture($0.url.utf8.count), [("Cache-Control", "max-age=1000")]) }
            for number in [1, 22] { try await fixture.get(url(number)) }
            #expect(try await fixture.cache.pin(fixture.request(url(22)), true))
            fixture.clock.advance(101)
            #expect(fixture.cache.view.hit(fixture.request(url(1), .cacheFirst), now: fixture.clock.now) == nil)
            #expect(await fixture.code(url(1), .cacheOnly) == .notCached)
            #expect(await fixture.code(url(22), .cacheOnly) == nil)
            await fixture.cache.expire()
            #expect(fixture.blobs.count == 1)
            #expect(fixture.cache.view.statistics.entries == 1)
        }
    }

    @Test("the times of last use are written to the index later, in one batch")
    func touches() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            for number in 1...3 { try await fixture.get(url(number)) }
            fixture.clock.advance(5)
            for number in 1...2 { try await fixture.get(url(number)) }
            let before = try await fixture.rows().map(\.lastUse)
            #expect(Set(before) == [fixture.clock.now - 5])
            await fixture.cache.writeTouches()
            let after = try await fixture.rows().map(\.lastUse).sorted()
            #expect(after == [fixture.clock.now - 5, fixture.clock.now, fixture.clock.now])
        }
    }

    @Test("a stop interrupts the writing of the times of last use, and the times are written later")
    func touchesAtStop() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            try await fixture.get(url(1))
            fixture.clock.advance(5)
            try await fixture.get(url(1))
            fixture.cache.accounts.isInterrupted = true
            await fixture.cache.writeTouches()
            #expect(try await fixture.rows().map(\.lastUse) == [fixture.clock.now - 5])
            fixture.cache.accounts.isInterrupted = false
            await fixture.cache.writeTouches()
            #expect(try await fixture.rows().map(\.lastUse) == [fixture.clock.now])
        }
    }

    @Test("clear keeps pinned images unless they are included, and leased files until their release")
    func clear() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            for number in 1...20 { try await fixture.get(url(number)) }
            #expect(Set(try await fixture.rows().map(\.lookup.url)) == Set((1...20).map(url)))
            _ = try await fixture.cache.pin(fixture.request(url(7)), true)
            let lease = try await fixture.cache.image(fixture.request(url(8)))
            let cleared = try await fixture.cache.clear()
            #expect(cleared.images == 19 && cleared.bytes == 19_000)
            #expect(fixture.blobs.count == 2)
            #expect(fixture.cache.view.statistics.leftoverBytes == 1000)
            let rest = try await fixture.cache.clear(includingPinned: true)
            #expect(rest.images == 1 && rest.bytes == 1000)
            fixture.cache.view.release(lease.digest)
            try await fixture.settle()
            #expect(fixture.blobs.isEmpty)
            await #expect(throws: ImageError.self) { try await fixture.cache.list(after: "x", limit: 1) }
        }
    }

    @Test("clear counts a file of several images once, and only if no other image still uses it")
    func clearSameBytes() async throws {
        try await withCache { fixture in
            fixture.origin.answer(picture(1))
            for number in 1...3 { try await fixture.get(url(number)) }
            _ = try await fixture.cache.pin(fixture.request(url(3)), true)
            let first = try await fixture.cache.clear()
            #expect(first.images == 2 && first.bytes == 0)
            let second = try await fixture.cache.clear(includingPinned: true)
            #expect(second.images == 1 && second.bytes == 1000)
        }
    }

    @Test("at most three quarters of the cache can be pinned, and a file of several images counts once")
    func pinLimit() async throws {
        try await withCache({ $0.space = SpaceLimits(bytes: 8000, count: 100, freeBytes: 0) }) { fixture in
            fixture.serveMany()
            for number in 1...8 { try await fixture.get(url(number)) }
            for number in 1...6 { #expect(try await fixture.cache.pin(fixture.request(url(number)), true)) }
            let request = fixture.request(url(7))
            let error = await #expect(throws: ImageError.self) { try await fixture.cache.pin(request, true) }
            #expect(error?.code == .cacheFull && error?.message.contains("three quarters") == true)
            // A pinned image may be pinned again, and so may another image with the same file.
            #expect(try await fixture.cache.pin(fixture.request(url(6)), true))
            fixture.origin.answer(picture(6))
            try await fixture.get(url(9))
            #expect(try await fixture.cache.pin(fixture.request(url(9)), true))
            let pinnedBytes = { fixture.cache.accounts.read { $0.pinnedBytes } }
            #expect(pinnedBytes() == 6000)
            // A pinned image loses its pin if a larger response replaces it and the pin limit would be exceeded.
            fixture.origin.answer(picture(30, size: 2000))
            try await fixture.get(url(1), .networkOnly)
            #expect(pinnedBytes() == 5000)
            #expect(try await fixture.cache.pin(request, true) == (fixture.cache.view.peek(request, now: 0) != nil))
            for number in 1...9 { _ = try await fixture.cache.pin(fixture.request(url(number)), false) }
            #expect(pinnedBytes() == 0)
        }
    }

    @Test("the last page of a list has no continuation")
    func lastPage() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            for number in 1...4 { try await fixture.get(url(number)) }
            let first = try await fixture.cache.list(after: nil, limit: 2)
            #expect(first.rows.count == 2)
            let last = try await fixture.cache.list(after: first.next, limit: 2)
            #expect(last.rows.count == 2 && last.next == nil)
            #expect(try await fixture.cache.list(after: nil, limit: 4).next == nil)
        }
    }

    @Test("images fetched with a credential are removed with the credential, on reload or at the next start")
    func removedCredentials() async throws {
        let credential = HTTPAccess(headers: ["Authorization": "Bearer geheim"])
        try await withPath { path in
            let known = try ImageOrigin("https://img.example", credential: credential)
            let fixture = try await CacheFixture.open(path) { $0.origins = [known] }
            fixture.serveMany()
            for number in 1...3 { try await fixture.get(url(number)) }
            try await fixture.get("https://other.example/4.png")
            // clear keeps the images of an origin whose credential the caller may not use.
            let cleared = try await fixture.cache.clear(includingPinned: true) { $0.name == "https://img.example" }
            #expect(cleared.images == 1 && cleared.bytes == 1000)
            #expect(try await fixture.rows().count == 3)
            try await fixture.get("https://other.example/4.png")

            // One download runs while the settings change.
            fixture.origin.pause()
            let late = Task { try await fixture.cache.image(fixture.request(url(5))) }
            await fixture.waitForWaiters(1, for: url(5))
            var settings = fixture.settings
            settings.origins = []
            await fixture.cache.update(settings)
            fixture.origin.resume()
            let image = try await late.value
            fixture.cache.view.release(image.digest)
            #expect(try await fixture.rows().map(\.lookup.url) == ["https://other.example/4.png"])
            #expect(fixture.cache.view.statistics.entries == 1)

            await fixture.cache.update(fixture.settings)
            for number in 1...3 { try await fixture.get(url(number)) }
            await fixture.cache.stop()
        }
        try await withPath { path in
            do {
                let known = try ImageOrigin("https://img.example", credential: credential)
                let fixture = try await CacheFixture.open(path) { $0.origins = [known] }
                fixture.serveMany()
                for number in 1...3 { try await fixture.get(url(number)) }
                await fixture.cache.stop()
            }
            let fixture = try await CacheFixture.open(path)
            // The images are hidden directly after the restart, and are removed by the background work.
            #expect(try await fixture.rows().isEmpty)
            #expect(fixture.blobs.count == 3)
            let running = Task { await fixture.cache.run() }
            await fixture.until { fixture.blobs.isEmpty }
            #expect(fixture.cache.view.statistics.entries == 0)
            running.cancel()
            await running.value
            await fixture.cache.stop()
        }
    }
}

/// The total size and the number of image files. A file with several names counts once.
///
/// Other tasks write at the same time, so the directories are scanned twice. The files with the same name and inode in
/// both scans all existed between the scans. The inode alone is not enough, because file systems reuse it immediately.
private func onDisk(_ path: String) -> (bytes: Int, files: Int) {
    let (first, second) = (scan(path), scan(path))
    var sizes: [Int: Int] = [:]
    for (name, file) in second {
        guard let before = first[name], before.number == file.number else { continue }
        sizes[file.number] = min(before.size, file.size)
    }
    return (sizes.values.reduce(0, +), sizes.count)
}

/// The files in the directories for images, by name.
private func scan(_ path: String) -> [String: (number: Int, size: Int)] {
    var files: [String: (number: Int, size: Int)] = [:]
    for place in ["/blobs", "/tmp"] {
        for name in FileManager.default.enumerator(atPath: path + place)?.allObjects as? [String] ?? [] {
            guard let attributes = try? FileManager.default.attributesOfItem(atPath: path + place + "/" + name),
                attributes[.type] as? FileAttributeType == .typeRegular,
                let number = attributes[.systemFileNumber] as? Int, let size = attributes[.size] as? Int
            else { continue }
            files[name] = (number, size)
        }
    }
    return files
}

extension Sequence {
    fileprivate func asyncMap<T>(_ body: (Element) async throws -> T) async rethrows -> [T] {
        var result: [T] = []
        for element in self { result.append(try await body(element)) }
        return result
    }
}

extension ImageCache {
    /// Sets the maximum number of images without evicting any.
    fileprivate func setLimit(_ count: Int, _ settings: ImageCacheSettings) {
        var settings = settings
        settings.space.count = count
        catalog.update(settings)
    }
}
