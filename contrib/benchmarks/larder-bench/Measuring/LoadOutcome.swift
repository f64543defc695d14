/// The result of one round of operations of the same kind.
struct LoadOutcome: Sendable {
    /// The duration of each operation.
    let latencies: LatencyHistogram
    /// The duration of the round.
    let nanoseconds: UInt64
    let use: ProcessorUse

    var perSecond: Double { Double(latencies.count) / Double(max(nanoseconds, 1)) * 1e9 }

    /// Returns the row of one server: the median rate of its rounds, and the latencies and processor time of all rounds
    /// together.
    /// - Parameters:
    ///   - operation: the kind of operation that the rates count, in the singular
    ///   - comparesLatency: whether the samples are the median latencies of the rounds instead of the rates
    static func row(
        _ name: String, _ rounds: [LoadOutcome], operation: String, comparesLatency: Bool
    ) -> Report.Row {
        var latencies = LatencyHistogram()
        for round in rounds { latencies.add(round.latencies) }
        func microseconds(_ name: String, _ nanoseconds: UInt64) -> Report.Metric {
            ("\(name)Microseconds", Double(nanoseconds) / 1000)
        }
        let rates = rounds.map(\.perSecond)
        let samples = comparesLatency ? rounds.map { Double($0.latencies.percentile(50)) / 1000 } : rates
        let metrics = [
            ("\(operation)sPerSecond", Statistics.median(rates)),
            microseconds("p50", latencies.percentile(50)), microseconds("p99", latencies.percentile(99)),
            microseconds("max", latencies.maximum),
        ]
        let processor = Report.Row.processorMetrics(
            rounds.map(\.use).combined, operations: Double(latencies.count))
        return Report.Row(name: name, metrics: metrics + processor, samples: samples)
    }
}
