import ArgumentParser

/// The number and the length of the rounds of a benchmark.
struct RoundOptions: ParsableArguments {
    @Option(help: "The number of rounds for each server.")
    var rounds = 5

    @Option(help: "The length of a round in seconds.")
    var seconds = 2.0

    func validate() throws {
        guard rounds >= 1, seconds > 0 else {
            throw ValidationError("--rounds must be at least 1, --seconds must be above 0.")
        }
    }

    /// A description for the headline of a report.
    var text: String { "\(rounds) rounds of \(seconds) s" }

    /// Measures the loads in alternation, round by round.
    /// - Parameters:
    ///   - names: the name of each load in the report
    ///   - operation: the kind of operation that the rates count, in the singular
    ///   - comparesLatency: whether the report compares the median latencies of the rounds instead of the rates
    ///   - measure: measures a load for a number of seconds
    func report<Load>(
        _ benchmark: String, _ headline: String, _ loads: [Load], names: [String], operation: String,
        comparesLatency: Bool = false, measure: (Load, Double) throws -> LoadOutcome
    ) rethrows -> Report {
        var outcomes = [[LoadOutcome]](repeating: [], count: loads.count)
        for _ in 0..<rounds {
            for (position, load) in loads.enumerated() { outcomes[position].append(try measure(load, seconds)) }
        }
        let rows = zip(names, outcomes).map {
            LoadOutcome.row($0, $1, operation: operation, comparesLatency: comparesLatency)
        }
        return Report(
            benchmark: benchmark, headline: "\(headline), \(text)", rows: rows,
            comparedMetric: comparesLatency ? "p50Microseconds" : "\(operation)sPerSecond"
        )
        .warningAboutOthers(outcomes.map { $0.map(\.use).combined })
    }
}
