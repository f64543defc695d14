import Testing

@testable import larder_bench

@Suite("Benchmark reports")
struct ReportTests {
    private func report(_ samples: [Double]...) -> Report {
        Report(
            benchmark: "get", headline: "one",
            rows: zip(["larder", "redis"], samples).map { name, samples in
                let metric = Report.Metric(key: "rate", title: "per second", value: Statistics.median(samples))
                return Report.Row(name: name, metrics: [metric], samples: samples)
            },
            comparedMetric: "rate")
    }

    @Test("the ratio of two servers is the median of their ratios in the individual rounds")
    func ratio() {
        let ratio = report([10, 40, 90], [10, 20, 30]).ratio
        #expect(ratio?.median == 2)
        #expect(ratio?.lowest == 1)
        #expect(ratio?.highest == 3)
    }

    @Test("a report has no ratio if it has only one server or if a rate is 0")
    func noRatio() {
        #expect(report([10, 40]).ratio == nil)
        #expect(report([10], [0]).ratio == nil)
    }

    @Test("the table and the JSON contain all figures")
    func output() {
        let report = report([1000, 2000, 3000], [500, 1000, 1500])
        #expect(
            report.table() == """
                get: one
                          per second
                  larder       2,000
                  redis        1,000
                  larder / redis, rate: 2.000 (rounds 2.000 to 2.000)
                """)
        #expect(
            report.jsonText() == """
                {"benchmark":"get","headline":"one","servers":{\
                "larder":{"metrics":{"rate":2000},"samples":[1000,2000,3000]},\
                "redis":{"metrics":{"rate":1000},"samples":[500,1000,1500]}},\
                "ratio":{"metric":"rate","numerator":"larder","denominator":"redis","median":2,"lowest":2,"highest":2},\
                "notes":[]}
                """)
    }

    @Test(
        "numbers are grouped and rounded",
        arguments: [
            (0, 0, "0"), (999, 0, "999"), (1000, 0, "1,000"), (1_234_567.891, 2, "1,234,567.89"), (-0.001, 2, "0.00"),
            (-1234, 0, "-1,234"), (0.05, 1, "0.1"), (9.999, 2, "10.00"),
        ] as [(Double, Int, String)])
    func numbers(value: Double, decimals: Int, text: String) {
        #expect(NumberText.grouped(value, decimals: decimals) == text)
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
