import LarderJSON
import LarderClient
import LarderProtocol
import Testing

@testable import LarderCommand

@Suite("Report of a prefetch")
struct PrefetchReportTests {
    private func report(
        _ list: String, cached: Int = 0, failures: [ImagePrefetch.Failure] = [], uncached: Int
    ) throws -> PrefetchReport {
        let list = try PrefetchList.parse(Array(list.utf8), name: "list")
        var report = PrefetchReport(list)
        report.add(
            ImagePrefetch.Result(
                total: list.items.count, fetched: list.items.count - cached - failures.count, cached: cached,
                failed: failures.count, bytes: 0, failures: failures))
        report.add(uncached: uncached)
        return report
    }

    private func failure(_ url: String, _ code: WireError.Code, _ detail: String) -> ImagePrefetch.Failure {
        ImagePrefetch.Failure(url: url, error: WireError(code, detail))
    }

    private let list = "https://a/1\nhttps://a/2\nhttps://a/3\n"

    @Test("a prefetch succeeds only if all images are cached at its end")
    func success() throws {
        let whole = try report(list, cached: 1, uncached: 0)
        #expect(whole.failure == nil)
        #expect(try JSONValue(parsing: whole.json)["evicted"] == 0)
        let evicted = try report(list, cached: 1, uncached: 2)
        #expect(evicted.failure?.status == .cacheFull)
        #expect(evicted.failure?.message.hasPrefix("2 of 3 images were evicted again, ") == true)
        #expect(evicted.text(milliseconds: 10).hasSuffix(", 1 already cached, 0 failed, 2 evicted again"))
        #expect(try JSONValue(parsing: evicted.json)["evicted"] == 2)
    }

    @Test("failed images of which there is still a copy are counted as cached")
    func outdated() throws {
        let failures = (1...3).map { failure("https://a/\($0)", .offline, "https://a/\($0) no connection") }
        let report = try report(list, failures: failures, uncached: 1)
        #expect(
            report.text(milliseconds: 10).contains(
                ", 0 already cached, 3 failed (2 of them cached, but not confirmed by the origin)"))
        #expect(report.failure?.status == .failure)
    }

    @Test("if nothing was evicted, images that are not cached are not blamed on missing space")
    func uncacheable() throws {
        var report = try report(list, cached: 1, uncached: 0)
        report.add(uncached: 2, hasEvictions: false)
        #expect(report.failure?.status == .failure)
        #expect(report.failure?.message.hasPrefix("2 of 3 images were not kept, because their origins forbid") == true)
        #expect(report.failure?.message.contains("images.maximumBytes") == false)
        #expect(report.text(milliseconds: 10).hasSuffix(", 0 failed, 2 not kept"))
        #expect(try JSONValue(parsing: report.json)["evicted"] == 0)
        #expect(try JSONValue(parsing: report.json)["notKept"] == 2)
    }

    @Test(
        "images that failed or were rejected do not count as evicted; missing space is the status if it is the only cause"
    )
    func failures() throws {
        let gone = failure("https://a/1", .upstreamFailed, "https://a/1 returned status 404")
        let full = failure("https://a/1", .cacheFull, "the cache has no room for another 7 bytes")
        #expect(try report(list, failures: [gone], uncached: 1).failure == Failure(.failure, "1 of 3 images failed"))
        #expect(try report(list, failures: [full], uncached: 1).failure == Failure(.cacheFull, "1 of 3 images failed"))
        let both = try report(list, failures: [gone], uncached: 3).failure
        #expect(both?.status == .failure)
        #expect(both?.message.hasPrefix("1 of 3 images failed, and 2 of 3 images were evicted again, ") == true)
        #expect(try report(list, failures: [full], uncached: 3).failure?.status == .cacheFull)
        let refused = try report("https://a/1\nno\n", uncached: 1)
        #expect(refused.failure?.status == .failure)
        #expect(refused.failure?.message.hasPrefix("1 of 2 images failed, and 1 of 2 images were evicted") == true)
    }

    @Test("failures with equal reasons are grouped, whatever their URLs and the bytes that had no room")
    func groups() throws {
        let report = try report(
            (1...6).map { "https://a/\($0)" }.joined(separator: "\n"),
            failures: [
                failure("https://a/1?s", .upstreamFailed, "https://a/1 returned status 404 (check the address)"),
                failure("https://a/2", .cacheFull, "the cache has no room for another 7 bytes"),
                failure("https://a/3", .upstreamFailed, "https://a/3 returned status 404 (check the address)"),
                failure("https://a/4", .upstreamFailed, "https://a/4 returned status 500"),
                failure("https://a/5", .cacheFull, "the cache has no room for another 8 bytes"),
            ], uncached: 5)
        #expect(
            report.text(milliseconds: 10).split(separator: "\n").dropFirst() == [
                "  2 images: Upstream failed: returned status 404 (check the address)", "    https://a/1?s",
                "    https://a/3", "  2 images: Cache full: the cache has no room for another 7 bytes",
                "    https://a/2",
                "    https://a/5", "  https://a/4  Upstream failed: https://a/4 returned status 500",
            ])
    }
}
