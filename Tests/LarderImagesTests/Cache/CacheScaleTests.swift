import Foundation
import LarderImageFormats
import Testing

@testable import LarderImages

@Suite("Image cache with 100,000 images")
struct CacheScaleTests {
    /// The resident anonymous memory of this process in bytes.
    private func memory() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
        return (line?.split(separator: " ").compactMap { Int($0) }.first ?? 0) * 1024
    }

    /// Prints time and memory but does not check them, because the build is not optimized. The benchmarks check both.
    @Test("the cache opens with all images and finds them")
    func open() async throws {
        try await withPath { path in
            let count = 100_000
            do {
                _ = try BlobStore(path: path)
                let database = try IndexDatabase(path: path + "/index.sqlite")
                var rows: [ImageRow] = []
                for number in 0..<count {
                    let text = "\n" + url(number)
                    let digest = try #require(BlobDigest(sha256: Array(text.utf8)))
                    let blob = PublishedBlob(
                        digest: digest, size: 1000,
                        header: ImageHeader(.png, width: number % 100 + 1, height: 2, frameCount: 1))
                    rows.append(
                        ImageRow(
                            keyText: text, url: url(number), blob: blob,
                            response: response([("Cache-Control", "max-age=3600")]), lastUse: now + number))
                }
                try database.put(rows)
            }
            let (before, start) = (memory(), ContinuousClock.now)
            let fixture = try await CacheFixture.open(path)
            let (time, used) = (ContinuousClock.now - start, memory() - before)
            print("100,000 images: opened in \(time), \(used / 1_048_576) MiB (not optimized)")
            #expect(fixture.cache.view.statistics.entries == count)
            #expect(fixture.cache.view.statistics.bytes == count * 1000)
            for number in stride(from: 0, to: count, by: 997) {
                #expect(fixture.cache.view.peek(fixture.request(url(number)), now: now)?.width == number % 100 + 1)
            }
            try await fixture.settle()
        }
    }

    @Test("each image takes one inode; the directories and the index take at most 270")
    func inodes() throws {
        let count = 2_000
        try withDirectory { path in
            do {
                let store = try BlobStore(path: path, limits: SpaceLimits(freeBytes: 0))
                let index = try ImageIndex.open(in: store).index
                for start in stride(from: 0, to: count, by: 100) {
                    try index.put(
                        (start..<start + 100).map { number in
                            ImageRow(
                                keyText: "\n" + url(number), url: url(number),
                                blob: try store.put(picture(number, size: 200)),
                                response: response([("Cache-Control", "max-age=3600"), ("ETag", "\"\(number)\"")]),
                                lastUse: now)
                        })
                }
                _ = try index.beginCopy()
                while try !index.continueCopy(pages: 256) {}
                try index.copy.publish()
            }
            var inodes = 1
            for name in FileManager.default.enumerator(atPath: path)?.allObjects as? [String] ?? [] {
                var information = stat()
                #expect(lstat(path + "/" + name, &information) == 0)
                inodes += 1
            }
            #expect(inodes <= count + 270)
        }
    }
}
