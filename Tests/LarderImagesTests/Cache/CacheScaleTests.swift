import Foundation
import Testing

@testable import LarderImages

@Suite("The image cache with 100,000 images")
struct CacheScaleTests {
    /// The process's memory in bytes that is in no file.
    private func memory() -> Int {
        let text = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = text.split(separator: "\n").first { $0.hasPrefix("RssAnon:") }
        return (line?.split(separator: " ").compactMap { Int($0) }.first ?? 0) * 1024
    }

    /// What it takes is printed, not judged: that is for the benchmarks, which have an optimised build.
    @Test("it opens with all of them, and each is found")
    func open() async throws {
        try await withPath { path in
            let count = 100_000
            do {
                _ = try BlobStore(path: path)
                // The rows alone: as files of their own they would take longer than all the rest.
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
            print("100,000 images: opened in \(time), \(used / 1_048_576) MiB (not optimised)")
            #expect(fixture.cache.statistics.entries == count)
            #expect(fixture.cache.statistics.bytes == count * 1000)
            for number in stride(from: 0, to: count, by: 997) {
                #expect(fixture.cache.peek(fixture.request(url(number)), now: now)?.width == number % 100 + 1)
            }
            try await fixture.settle()
        }
    }
}
