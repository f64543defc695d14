import LarderJSON

/// The results of one benchmark: the same metrics for each server.
struct Report: Sendable {
    /// A metric: its name in JSON, which includes the unit, and its value.
    typealias Metric = (key: String, value: Double)

    /// The metrics of one server.
    struct Row: Sendable {
        let name: String
        var metrics: [Metric]
        /// The compared metric of each round, in the order of the rounds.
        var samples: [Double]
    }

    let benchmark: String
    /// A description of the benchmark with its parameters, in one line.
    let headline: String
    let rows: [Row]
    /// The key of the metric that ``Row/samples`` has for each round.
    let comparedMetric: String
    /// Warnings about the validity of the results.
    var notes: [String] = []

    /// Prints the report as JSON.
    func print() { Swift.print(jsonText()) }

    /// The report as one line: `{"benchmark", "headline", "servers": {NAME: {"metrics": {KEY: number},
    /// "samples": [number]}}, "ratio": {"metric": KEY}, "notes": [string]}`.
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
        return JSONValue.object([
            ("benchmark", .string(benchmark)), ("headline", .string(headline)), ("servers", .object(servers)),
            ("ratio", ["metric": .string(comparedMetric)]), ("notes", .array(notes.map { .string($0) })),
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
        var metrics = [(key: "clientMicroseconds", value: use.client / operations * 1e6)]
        if use.isServerMeasured {
            metrics += [
                ("serverMicroseconds", use.server / operations * 1e6), ("clientShare", use.clientShare),
                ("othersShare", use.othersShare),
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
