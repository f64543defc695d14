import Foundation
import TestSupport
import Testing

@testable import LarderImages

@Suite("Disk space of the image cache")
struct DiskSpaceTests {
    /// The bytes that du(1) counts below a directory, the directory itself included.
    private func du(_ path: String) throws -> Int {
        let result = try Command.run("/usr/bin/du", ["--summarize", "--block-size=1", path])
        return try #require(result.text.split(separator: "\t").first.flatMap { Int($0) })
    }

    /// Downloads images of 200 bytes, eight at a time.
    private func fill(_ fixture: CacheFixture, _ count: Int) async throws {
        fixture.origin.answer { order in
            let name = order.url.split(separator: "/").last?.split(separator: ".").first ?? ""
            return .image(picture(Int(name) ?? 0, size: 200), [("Cache-Control", "max-age=3600")])
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    for number in stride(from: worker, to: count, by: 8) { try await fixture.get(url(number)) }
                }
            }
            try await group.waitForAll()
        }
        try await fixture.settle()
    }

    @Test(
        "according to du(1), blobs take at most 1.02 times the limit, and clear leaves less than 1 MB",
        arguments: [1, 16])
    func limit(_ megabytes: Int) async throws {
        let limit = megabytes * 1_000_000
        try await withPath { path in
            let files = try FaultyCacheFiles(path, counting: .blocks, isDurable: false)
            let change: (inout ImageCacheSettings) -> Void = { $0.space = SpaceLimits(bytes: limit, freeBytes: 0) }
            do {
                let fixture = try await CacheFixture.open(path, files: files, change)
                try await fill(fixture, megabytes * 270)
                let used = try du(path + "/blobs")
                print("\(limit) bytes: du \(used), \(fixture.cache.view.statistics.entries) images")
                #expect(used * 100 <= limit * 102)
                #expect(used * 100 >= limit * 97)
                #expect(fixture.cache.view.statistics.bytes == used)
                await fixture.cache.stop()
            }
            let fixture = try await CacheFixture.open(path, files: files, change)
            #expect(try fixture.cache.view.statistics.bytes == du(path + "/blobs"))
            let index = try FileManager.default.contentsOfDirectory(atPath: path).filter {
                $0.hasPrefix("index") || $0 == "reserve"
            }
            #expect(try fixture.cache.view.statistics.indexBytes == index.reduce(0) { try $0 + du(path + "/" + $1) })
            _ = try await fixture.cache.clear()
            try await fixture.settle()
            #expect(try du(path + "/blobs") < 1_000_000)
            print("cleared: blobs \(try du(path + "/blobs")), all \(try du(path))")
            await fixture.cache.stop()
            #expect(try du(path) < 1_000_000)
        }
    }

    @Test("an image whose file has more blocks than its row suggests is counted by its blocks")
    func correction() async throws {
        try await withPath { path in
            let digest: BlobDigest
            do {
                let fixture = try await CacheFixture.open(path)
                fixture.origin.answer(picture(1))
                digest = try await fixture.get(url(1)).digest
                await fixture.cache.stop()
            }
            let files = try FaultyCacheFiles(path, counting: .blocks)
            let fixture = try await CacheFixture.open(path, files: files)
            let file = fixture.cache.view.path(of: digest)
            #expect(chmod(file, 0o640) == 0)
            // Allocates blocks beyond the end of the file, as a file system may do.
            try #expect(Command.run("/usr/bin/fallocate", ["--keep-size", "--length", "100000", file]).status == 0)
            await fixture.cache.sweep()
            #expect(try fixture.cache.view.statistics.bytes == du(path + "/blobs"))
            #expect(fixture.cache.view.statistics.bytes > 100_000)
            await fixture.cache.stop()
        }
    }

    /// Creates an XFS file system in a file and runs a body with its mount point. Requires root.
    private func withXFS(_ body: (String) throws -> Void) throws {
        try withTemporaryDirectory { path in
            let (disk, mount) = (path + "/disk", path + "/mount")
            try FileManager.default.createDirectory(atPath: mount, withIntermediateDirectories: false)
            try #require(FileManager.default.createFile(atPath: disk, contents: nil))
            try #require(truncate(disk, 400 << 20) == 0)
            try #require(Command.run("/usr/sbin/mkfs.xfs", ["-q", disk]).status == 0)
            let mounting = try Command.run("/usr/bin/mount", ["-o", "loop", disk, mount])
            try #require(mounting.status == 0, "\(mounting.log)")
            defer { _ = try? Command.run("/usr/bin/umount", ["--lazy", mount]) }
            try body(mount)
        }
    }

    @Test(
        "blocks that XFS allocates beyond the end of a file do not count",
        .enabled(
            if: geteuid() == 0
                && ["/usr/sbin/mkfs.xfs", "/dev/loop-control"].allSatisfy { FileManager.default.fileExists(atPath: $0) },
            "needs root, mkfs.xfs and loop devices"))
    func preallocation() throws {
        try withXFS { path in
            let store = try BlobStore(path: path + "/cache", limits: SpaceLimits(freeBytes: 0))
            for size in [3000, 100_000, 1_000_000] { _ = try store.put(picture(size, size: size), pieces: 16 << 10) }
            #expect(try store.usage.bytes == du(path + "/cache/blobs"))
        }
    }
}
