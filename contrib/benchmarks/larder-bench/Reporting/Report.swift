import LarderJSON

/// The results of one benchmark: the same metrics for each server, and a comparison of the first two.
struct Report: Sendable {
    /// A metric.
    struct Metric: Sendable {
        /// The name in JSON, including the unit.
        let key: String
        /// The heading of the column.
        let title: String
        let value: Double
        /// The number of decimals in the table. JSON has at most three.
        var decimals = 0
    }

    /// The metrics of one server.
    struct Row: Sendable {
        let name: String
        var metrics: [Metric]
        /// The compared metric of each round, in the order of the rounds.
        var samples: [Double]
    }

    /// The comparison of the first server with the second. Each round of the first is compared with the same
    /// round of the second, because a temporary disturbance of the machine then affects both.
    struct Ratio: Sendable {
        let metric: String
        let numerator: String
        let denominator: String
        let median: Double
        let lowest: Double
        let highest: Double
    }

    let benchmark: String
    /// A description of the benchmark with its parameters, in one line.
    let headline: String
    let rows: [Row]
    /// The key of the metric that ``ratio`` compares.
    let comparedMetric: String
    /// Warnings about the validity of the results.
    var notes: [String] = []

    /// The compared metric of the first server divided by that of the second; nil if only one server was measured.
    var ratio: Ratio? {
        guard rows.count >= 2 else { return nil }
        let quotients = zip(rows[0].samples, rows[1].samples).filter { $0.1 > 0 }.map { $0.0 / $0.1 }
        guard let lowest = quotients.min(), let highest = quotients.max() else { return nil }
        return Ratio(
            metric: comparedMetric, numerator: rows[0].name, denominator: rows[1].name,
            median: Statistics.median(quotients), lowest: lowest, highest: highest)
    }

    /// Prints the report as a table, or as one JSON object.
    func print(asJSON: Bool) {
        Swift.print(asJSON ? jsonText() : table())
    }

    /// The report as one line: `{"benchmark", "headline", "servers": {NAME: {"metrics": {KEY: number},
    /// "samples": [number]}}, "ratio": {...} or null, "notes": [string]}`.
    func jsonText() -> String {
        let servers = rows.map { row in
            (
                row.name,
                JSONValue.object([
                    ("metrics", .object(row.metrics.map { ($0.key, Self.figure($0.value)) })),
                    ("samples", .array(row.samples.map(Self.figure))),
                ])
            )
        }
        let ratio = ratio.map { ratio in
            JSONValue.object([
                ("metric", .string(ratio.metric)), ("numerator", .string(ratio.numerator)),
                ("denominator", .string(ratio.denominator)), ("median", Self.figure(ratio.median)),
                ("lowest", Self.figure(ratio.lowest)), ("highest", Self.figure(ratio.highest)),
            ])
        }
        return JSONValue.object([
            ("benchmark", .string(benchmark)), ("headline", .string(headline)), ("servers", .object(servers)),
            ("ratio", ratio ?? .null), ("notes", .array(notes.map { .string($0) })),
        ]).compactText
    }

    /// Returns a number with at most three decimals; integers without any.
    private static func figure(_ value: Double) -> JSONValue {
        let rounded = (value * 1000).rounded() / 1000
        return Int(exactly: rounded).map { .int($0) } ?? .double(rounded)
    }
}

extension Report.Row {
    /// Metrics of the processor time for each operation, during the measurement of one server.
    static func processorMetrics(_ use: ProcessorUse, operations: Double) -> [Report.Metric] {
        guard operations > 0 else { return [] }
        var metrics = [
            Report.Metric(
                key: "clientMicroseconds", title: "client CPU µs", value: use.client / operations * 1e6, decimals: 2)
        ]
        if use.isServerMeasured {
            metrics += [
                Report.Metric(
                    key: "serverMicroseconds", title: "server CPU µs", value: use.server / operations * 1e6,
                    decimals: 2),
                Report.Metric(key: "clientShare", title: "client share", value: use.clientShare, decimals: 2),
                Report.Metric(key: "othersShare", title: "others", value: use.othersShare, decimals: 2),
            ]
        }
        return metrics
    }
}

extension Report {
    /// The share of the machine above which other processes invalidate a measurement. Below this share, the other
    /// processes may be kernel threads that write to disk or close sockets for the server.
    private static let maxOthersShare = 0.1

    /// Returns the report with a warning if other processes used too much of the machine.
    func warningAboutOthers(_ uses: [ProcessorUse]) -> Report {
        guard let worst = uses.map(\.othersShare).max(), worst > Self.maxOthersShare else { return self }
        var report = self
        report.notes.append(
            "other processes used \(Int((worst * 100).rounded())) % of the machine; measure again when it is idle")
        return report
    }
}
