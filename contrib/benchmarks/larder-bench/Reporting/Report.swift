/// The outcome of one benchmark: for each server the same figures, and how the first two compare.
struct Report: Sendable {
    /// One figure.
    struct Metric: Sendable {
        /// Its name in JSON, unit included.
        let key: String
        /// The head of its column.
        let title: String
        let value: Double
        /// Digits after the point in the table; JSON has three.
        var decimals = 0
    }

    /// The figures of one server.
    struct Row: Sendable {
        let name: String
        var metrics: [Metric]
        /// The figure that the benchmark is about, once for each round, in the order of the rounds.
        var samples: [Double]
    }

    /// A parameter as it was used.
    enum Parameter: Sendable {
        case count(Int)
        case seconds(Double)
        case text(String)
        case flag(Bool)
    }

    /// How the first server compares with the second. Rounds are compared in pairs, because what disturbs a machine
    /// for a while then disturbs both.
    struct Ratio: Sendable {
        let metric: String
        let numerator: String
        let denominator: String
        let median: Double
        let lowest: Double
        let highest: Double
    }

    let benchmark: String
    /// One line that says what was done.
    let headline: String
    let parameters: [(name: String, value: Parameter)]
    let rows: [Row]
    /// The key of the figure that ``ratio`` compares; nil when nothing is to be compared.
    let comparedMetric: String?
    /// What a reader has to know before believing the figures.
    var notes: [String] = []

    /// The first server's figure divided by the second's.
    var ratio: Ratio? {
        guard let comparedMetric, rows.count >= 2 else { return nil }
        let quotients = zip(rows[0].samples, rows[1].samples).filter { $0.1 > 0 }.map { $0.0 / $0.1 }
        guard let lowest = quotients.min(), let highest = quotients.max() else { return nil }
        return Ratio(
            metric: comparedMetric, numerator: rows[0].name, denominator: rows[1].name,
            median: Statistics.median(quotients), lowest: lowest, highest: highest)
    }

    /// Prints the report, as a table or as one JSON object.
    func print(asJSON: Bool) {
        Swift.print(asJSON ? jsonText() : table())
    }
}

extension Report.Row {
    /// What the processor's time says about one server's measurement.
    static func processorMetrics(_ use: ProcessorUse, operations: Double, unit: String) -> [Report.Metric] {
        guard operations > 0 else { return [] }
        var metrics = [
            Report.Metric(
                key: "clientMicrosecondsPer\(unit)", title: "client CPU µs", value: use.client / operations * 1e6,
                decimals: 2)
        ]
        if use.seesServer {
            metrics += [
                Report.Metric(
                    key: "serverMicrosecondsPer\(unit)", title: "server CPU µs", value: use.server / operations * 1e6,
                    decimals: 2),
                Report.Metric(key: "clientShare", title: "client share", value: use.clientShare, decimals: 2),
                Report.Metric(key: "othersShare", title: "others", value: use.othersShare, decimals: 2),
            ]
        }
        return metrics
    }
}

extension Report {
    /// Above this part of the machine, others spoil a measurement. Up to it, they may be the kernel's own threads, which
    /// write to the disk or dispose of closed sockets on the server's behalf.
    private static let tolerableOthersShare = 0.1

    /// The same report with a warning if others used the machine.
    func warningAboutOthers(_ uses: [ProcessorUse]) -> Report {
        guard let worst = uses.map(\.othersShare).max(), worst > Self.tolerableOthersShare else { return self }
        var report = self
        report.notes.append(
            "other processes used \(Int((worst * 100).rounded())) % of the machine: measure again when it is idle")
        return report
    }
}
