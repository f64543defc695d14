import Testing

@testable import larder_bench

@Suite("Latency histogram")
struct LatencyHistogramTests {
    @Test(
        "a percentile exceeds the recorded duration by at most 0.8 %",
        arguments: [0, 1, 127, 128, 255, 256, 257, 999, 1_000_000, 123_456_789, (1 << 39) + 12345] as [UInt64])
    func precision(nanoseconds: UInt64) {
        var histogram = LatencyHistogram()
        histogram.record(nanoseconds)
        histogram.record(nanoseconds * 10)
        let median = histogram.percentile(50)
        #expect(median >= nanoseconds)
        #expect(Double(median - nanoseconds) <= Double(nanoseconds) * 0.008)
    }

    @Test("a percentile counts a duration as often as it was recorded")
    func occurrences() {
        var histogram = LatencyHistogram()
        histogram.record(10, occurrences: 99)
        histogram.record(100, occurrences: 1)
        #expect(histogram.count == 100)
        #expect(histogram.percentile(50) == 10)
        #expect(histogram.percentile(99) == 10)
        #expect(histogram.percentile(99.1) == 100)
    }

    @Test("the maximum is exact, even beyond the last bucket")
    func maximum() {
        var histogram = LatencyHistogram()
        histogram.record(1_000_003)
        #expect(histogram.percentile(100) == 1_000_003)
        histogram.record(.max)
        #expect(histogram.maximum == .max)
    }

    @Test("adding a histogram combines the counts")
    func addition() {
        var first = LatencyHistogram()
        var second = LatencyHistogram()
        first.record(1)
        second.record(5, occurrences: 3)
        first.add(second)
        #expect(first.count == 4)
        #expect(first.maximum == 5)
        #expect(first.percentile(50) == 5)
    }

    @Test("the percentiles of an empty histogram are 0")
    func empty() {
        #expect(LatencyHistogram().percentile(99) == 0)
    }
}
