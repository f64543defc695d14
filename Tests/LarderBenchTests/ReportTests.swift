import Testing

@testable import larder_bench

@Suite("Benchmark reports")
struct ReportTests {
    @Test("the JSON contains all figures")
    func output() {
        let rows = [("larder", [1000.0, 2000, 3000]), ("redis", [500, 1000, 1500])].map { name, samples in
            Report.Row(name: name, metrics: [(key: "rate", value: Statistics.median(samples))], samples: samples)
        }
        let report = Report(benchmark: "get", headline: "one", rows: rows, comparedMetric: "rate")
        #expect(
            report.jsonText() == """
                {"benchmark":"get","headline":"one","servers":{\
                "larder":{"metrics":{"rate":2000},"samples":[1000,2000,3000]},\
                "redis":{"metrics":{"rate":1000},"samples":[500,1000,1500]}},\
                "ratio":{"metric":"rate"},"notes":[]}
                """)
    }

    @Test("a median is the middle sample or the mean of the middle two; a percentile is a sample")
    func statistics() {
        #expect(Statistics.median([3, 1, 2]) == 2)
        #expect(Statistics.median([4, 1, 2, 3]) == 2.5)
        #expect(Statistics.median([]) == 0)
        #expect(Statistics.percentile([3, 1, 2], 99) == 3)
        #expect(Statistics.percentile(Array(stride(from: 100, through: 1, by: -1)), 99) == 99)
    }
}
