import Foundation
import LarderPlatform
import TestSupport
import Testing

@testable import LarderImages

@Suite("Blob store with failing disk operations")
struct BlobFaultTests {
    /// The rows that an index would have. A row is added after its image is published. It is removed before the image
    /// is removed.
    private final class Rows {
        var digests: Set<BlobDigest> = []
    }

    /// Publishes three images, one of them twice, removes one, and opens the others.
    private func work(_ store: BlobStore, _ rows: Rows) throws(ImageError) {
        for number in [1, 2, 1, 3] {
            let digest = try store.put(picture(number), pieces: 600, declared: number == 2).digest
            if !rows.digests.insert(digest).inserted, store.release(digest) { try store.removeUnreferenced(digest) }
        }
        for digest in rows.digests.sorted(by: { $0.description < $1.description }).prefix(1) {
            rows.digests.remove(digest)
            try store.drop(digest)
        }
        for digest in rows.digests { _ = try store.open(digest) }
    }

    /// Checks what must be true after a restart, whatever failed before it.
    private func check(_ path: String, _ rows: Rows, _ label: String) throws {
        let store = try BlobStore(counting: path)
        for digest in rows.digests { store.adopt(digest, size: 1000) }
        for digest in rows.digests {
            let bytes = try store.contents(digest)
            #expect(bytes.count == 1000, "\(label)")
        }
        // The digest in the name of each file is that of its content, also for orphans (files without a row).
        for name in filesBelow(path + "/blobs").keys {
            let digest = try #require(BlobDigest(hex: String(name.suffix(64))))
            let file = try #require(try LocalDirectoryFiles(path: path).open("blobs/" + name))
            #expect(try BlobFiles.hash(file) == digest, "\(label)")
        }
        _ = try store.sweepAll()
        #expect(filesBelow(path + "/blobs").count == rows.digests.count, "\(label)")
        #expect(filesBelow(path + "/tmp").isEmpty, "\(label)")
        #expect(filesBelow(path + "/blobs").values.reduce(0, +) == store.usage.bytes)
    }

    @Test("after a stop at any file operation, a restart finds a complete file for each row and sweeps other files")
    func everyStop() throws {
        var call = 0
        var isDone = false
        while !isDone {
            try withDirectory { path in
                let rows = Rows()
                do {
                    let files = try FaultyCacheFiles(path)
                    let store = try BlobStore(path: path, files: files)
                    files.arm(.init(call: call, errno: EIO, isLast: true))
                    do throws(ImageError) { try work(store, rows) } catch { #expect(error.code == .storageFailed) }
                    isDone = files.calls <= call
                }
                try check(path, rows, "stopped at call \(call)")
            }
            call += 1
        }
        #expect(call > 40)
    }

    @Test("the failure of any single file operation is reported and loses no data", arguments: [EIO, ENOSPC])
    func everyFailure(_ number: CInt) throws {
        var call = 0
        var isDone = false
        while !isDone {
            try withDirectory { path in
                let rows = Rows()
                do {
                    let files = try FaultyCacheFiles(path)
                    let store = try BlobStore(path: path, files: files)
                    files.arm(.init(call: call, errno: number, isLast: false))
                    do throws(ImageError) { try work(store, rows) } catch {
                        #expect(error.code == (number == EIO ? .storageFailed : .cacheFull))
                        #expect(error.shortage == nil)
                    }
                    isDone = files.calls <= call
                    files.arm(nil)
                    // No space remains reserved, and the store still works.
                    #expect(store.usage.reservedBytes == 0, "call \(call)")
                    let digest = try store.put(picture(7)).digest
                    #expect(rows.digests.insert(digest).inserted)
                    _ = try store.sweepAll()
                    #expect(
                        filesBelow(path + "/blobs").values.reduce(0, +) == rows.digests.count * 1000, "call \(call)")
                }
                try check(path, rows, "failed at call \(call)")
            }
            call += 1
        }
    }

    @Test("concurrent puts and removals of the same images lose no image in use and leave no file behind")
    func concurrent() async throws {
        let path =
            NSTemporaryDirectory() + "/larder-images-concurrent-" + String(UInt64.random(in: .min ... .max), radix: 16)
        defer { try? FileManager.default.removeItem(atPath: path) }
        let limit = 12_000
        let disk = ImageDiskCache(
            try BlobStore(counting: path, limits: SpaceLimits(bytes: limit, count: 12, freeBytes: 0)),
            CacheFixture.blocking)
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<6 {
                group.addTask {
                    var generator = SeededGenerator(seed: UInt64(worker))
                    for _ in 0..<40 {
                        let number = Int.random(in: 0..<6, using: &generator)
                        do throws(ImageError) {
                            let blob = try await disk.put(picture(number), declared: true)
                            #expect(try await disk.contents(blob.digest) == picture(number))
                            await disk.drop(blob.digest)
                        } catch {
                            #expect(error.code == .cacheFull, "\(error)")
                        }
                        if number == 0 { _ = try? await disk.sweep(step: 0) }
                        let usage = disk.accounts.usage
                        #expect(usage.bytes + usage.reservedBytes <= limit)
                    }
                }
            }
        }
        #expect(disk.accounts.usage == SpaceUsage.nothing)
        #expect(filesBelow(path + "/blobs").isEmpty)
        #expect(filesBelow(path + "/tmp").isEmpty)
    }
}
