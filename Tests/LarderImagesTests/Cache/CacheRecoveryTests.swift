import Foundation
import LarderHTTPSemantics
import Synchronization
import Testing

@testable import LarderImages

@Suite("Recovery of the image cache")
struct CacheRecoveryTests {
    @Test("after an unclean stop, damaged and missing files are downloaded again without an error")
    func damage() async throws {
        try await withPath { path in
            let clock = TestClock()
            var digests: [BlobDigest] = []
            do {
                let fixture = try await CacheFixture.open(path, clock: clock)
                fixture.serveMany()
                for number in 1...4 { digests.append(try await fixture.get(url(number)).digest) }
                try await fixture.settle()
            }
            // The cache is not stopped, as after a kill.
            let damaged = path + "/" + BlobFiles.name(digests[0])
            chmod(damaged, 0o600)
            try Data(repeating: 7, count: 1000).write(to: URL(filePath: damaged))
            try FileManager.default.removeItem(atPath: path + "/" + BlobFiles.name(digests[1]))
            let fixture = try await CacheFixture.open(path, clock: clock)
            fixture.serveMany()
            for number in 1...4 {
                #expect(fixture.cache.view.hit(fixture.request(url(number)), now: clock.now) == nil)
                let image = try await fixture.get(url(number))
                #expect(image.digest == digests[number - 1])
                #expect(image.source == (number <= 2 ? .miss : .hit))
                let whole = try await fixture.cache.openBlob(image.digest).read(at: 0, count: 2000)
                #expect(whole == picture(number))
                let hit = fixture.cache.view.hit(fixture.request(url(number)), now: clock.now)
                #expect(hit != nil)
            }
            await fixture.cache.stop()
            #expect(FileManager.default.fileExists(atPath: path + "/clean"))
        }
    }

    @Test("after an unclean stop, a file that cannot be read does not end the verification of the others")
    func unreadableFile() async throws {
        try await withPath { path in
            do {
                let fixture = try await CacheFixture.open(path)
                fixture.serveMany()
                for number in 1...5 { try await fixture.get(url(number)) }
                try await fixture.settle()
            }
            let files = try FaultyCacheFiles(path)
            let fixture = try await CacheFixture.open(path, files: files)
            let rows = try await fixture.rows()
            let digests = rows.map(\.digest)
            let first = try #require(await fixture.cache.firstDigest)
            files.fail(BlobFiles.name(first), EIO)
            let running = Task { await fixture.cache.run() }
            await fixture.until { digests.allSatisfy { fixture.cache.accounts.isVerified($0) || $0 == first } }
            running.cancel()
            await running.value
            #expect(!fixture.cache.accounts.isVerified(first))
            #expect(try await fixture.rows().count == 5)
            await fixture.cache.stop()
        }
    }

    @Test("a file that is removed while the cache runs is detected when opened, and downloaded again")
    func removedFile() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            let image = try await fixture.cache.image(fixture.request(url(1)))
            try FileManager.default.removeItem(atPath: fixture.cache.view.path(of: image.digest))
            await #expect(throws: ImageError.self) { try await fixture.cache.openBlob(image.digest) }
            #expect(fixture.cache.view.hit(fixture.request(url(1)), now: fixture.clock.now) == nil)
            fixture.cache.view.release(image.digest)
            let again = try await fixture.cache.image(fixture.request(url(1)))
            #expect(again.source == .miss)
            #expect(try await fixture.cache.openBlob(again.digest).size == 1000)
            fixture.cache.view.release(again.digest)
        }
    }

    @Test("after a kill, background tasks remove files without a row and verify the others")
    func sweep() async throws {
        try await withPath { path in
            do {
                let fixture = try await CacheFixture.open(path)
                fixture.serveMany()
                for number in 1...3 { try await fixture.get(url(number)) }
                let orphan = try await fixture.cache.image(fixture.request(url(3)))
                _ = try await fixture.cache.remove(fixture.request(url(3)))
                #expect(fixture.cache.accounts.retain(orphan.digest))
                try await fixture.settle()
            }
            let fixture = try await CacheFixture.open(path)
            #expect(fixture.blobs.count == 3)
            await fixture.cache.sweep()
            #expect(fixture.blobs.count == 2)
            let running = Task { await fixture.cache.run() }
            await fixture.until {
                fixture.cache.accounts.isVerified(BlobDigest(hex: fixture.blobs.keys.first ?? "")!)
            }
            running.cancel()
            await running.value
            await fixture.cache.stop()
        }
    }

    @Test("an image whose file another program has removed is not a hit, and is downloaded again")
    func removedFileOfHit() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            let request = fixture.request(url(1))
            for policy in [CachePolicy.default, .cacheFirst, .staleWhileRevalidate] {
                let digest = try await fixture.get(url(1)).digest
                try FileManager.default.removeItem(atPath: fixture.cache.view.path(of: digest))
                #expect(fixture.cache.view.hit(request, now: fixture.clock.now) == nil)
                let image = try await fixture.get(url(1), policy)
                #expect(image.source == .miss)
                #expect(FileManager.default.fileExists(atPath: fixture.cache.view.path(of: image.digest)))
                let hit = try #require(fixture.cache.view.hit(request, now: fixture.clock.now))
                fixture.cache.view.release(hit.digest)
            }
            try FileManager.default.removeItem(
                atPath: fixture.cache.view.path(of: try await fixture.get(url(1)).digest))
            #expect(await fixture.code(url(1), .cacheOnly) == .notCached)
        }
    }

    @Test("the explanation of a request contains no image whose file another program has removed")
    func explainedRemovedFile() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            let digest = try await fixture.get(url(1)).digest
            try await fixture.settle()
            let before = try await fixture.cache.explain(fixture.request(url(1)))
            #expect(before.row?.digest == digest)
            try FileManager.default.removeItem(atPath: fixture.cache.view.path(of: digest))
            let explanation = try await fixture.cache.explain(fixture.request(url(1)))
            #expect(explanation.row == nil)
            #expect(explanation.decision == .fetch)
        }
    }

    @Test("an image whose file another program removes after each download fails with the reason")
    func alwaysRemovedFile() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            fixture.files.observe { operation, name in
                // The directory is synchronized after the file has been published.
                guard operation == "fsync", name.hasPrefix("blobs/") else { return }
                for file in filesBelow(fixture.path + "/blobs").keys {
                    try? FileManager.default.removeItem(atPath: fixture.path + "/blobs/" + file)
                }
            }
            #expect(await fixture.code(url(1)) == .storageFailed)
            #expect(fixture.origin.requests.count == 2)
            fixture.files.observe(nil)
            let image = try await fixture.get(url(1))
            #expect(image.source == .miss)
        }
    }

    @Test("no request can get a reference to a file that is being removed")
    func removalAndRetain() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            let digest = try await fixture.get(url(1)).digest
            let retained = Mutex<[Bool]>([])
            fixture.files.observe { operation, name in
                guard operation == "remove", name.hasPrefix("blobs/") else { return }
                retained.withLock { $0.append(fixture.cache.accounts.retain(digest)) }
            }
            #expect(try await fixture.cache.remove(fixture.request(url(1))))
            fixture.files.observe(nil)
            #expect(retained.withLock { $0 } == [false])
            #expect(fixture.cache.view.statistics.bytes == 0)
        }
    }

    @Test("if an image is stored again while the removal of its row waits for the disk, the new row is kept")
    func removalAndReplacement() async throws {
        try await withCache { fixture in
            fixture.serveMany()
            try await fixture.get(url(1))
            try await fixture.settle()
            let gate = DispatchSemaphore(value: 0)
            let occupation = Task.immediate { await fixture.cache.disk.wait(for: gate) }
            async let isRemoved = fixture.cache.remove(fixture.request(url(1)))
            await fixture.until { fixture.cache.view.statistics.entries == 0 }
            async let again = fixture.get(url(1))
            await fixture.until { fixture.origin.requests.count == 2 }
            gate.signal()
            await occupation.value
            #expect(try await again.source == .miss)
            #expect(try await isRemoved)
            try await fixture.settle()
            #expect(try await fixture.rows().count == 1)
            #expect(fixture.blobs.count == 1)
            #expect(try await fixture.get(url(1)).source == .hit)
        }
    }

    @Test("after a stop at a file operation, a restart finds only complete files and no row without a file")
    func everyStop() async throws {
        var call = 0
        var isDone = false
        while !isDone {
            try await withPath { path in
                do {
                    let fixture = try await CacheFixture.open(path) {
                        $0.space = SpaceLimits(bytes: 1 << 30, count: 3, freeBytes: 0)
                    }
                    fixture.serveMany()
                    fixture.files.arm(.init(call: call, errno: EIO, isLast: true))
                    for number in [1, 2, 3, 1, 4, 5] { _ = await fixture.code(url(number)) }
                    _ = try? await fixture.cache.remove(fixture.request(url(4)))
                    fixture.origin.answer(picture(9))
                    _ = await fixture.code(url(5), .networkOnly)
                    try await fixture.settle()
                    isDone = fixture.files.calls <= call
                }
                let fixture = try await CacheFixture.open(path)
                await fixture.cache.sweep()
                let rows = try await fixture.rows()
                for row in rows {
                    let bytes = try await fixture.cache.openBlob(row.digest).read(at: 0, count: 2000)
                    #expect(BlobDigest(sha256: bytes) == row.digest, "stopped at call \(call)")
                }
                #expect(Set(fixture.blobs.keys) == Set(rows.map(\.digest.description)), "stopped at call \(call)")
                #expect(filesBelow(path + "/tmp").isEmpty)
                await fixture.cache.stop()
            }
            call += 11
        }
        #expect(call > 60)
    }
}
