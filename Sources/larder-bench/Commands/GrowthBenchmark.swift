import CLinuxShims
import ArgumentParser
import Glibc

/// `larder-bench growth`: whether reading a small value depends on how large the configuration is.
struct GrowthBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "growth", abstract: "Read one small value out of configurations of several sizes.",
        discussion: """
            For each size, the namespace "size" with that number (such as size1000, which the agent's settings have to \
            declare) gets a document of so many bytes. One connection reads one small value of it, one request at a time: in \
            the same words again and again, in words that the agent has not heard before, and right after each change. Sizes \
            take turns, request by request, so that what the machine makes of a moment is the same for all. The slope says how \
            latencies grow: 0 not at all, 1 in proportion to the size.
            """)

    @Option(name: .customLong("socket"), help: ArgumentHelp("The agent's socket.", valueName: "path"))
    var socket: String

    @Option(help: "Sizes of the configuration in bytes, the smallest first.", transform: Self.sizes)
    var sizes = [1000, 100_000, 10_000_000]

    @Option(help: "Rounds for each size.")
    var rounds = 5

    @Option(help: "Seconds for each size in a round.")
    var seconds = 0.5

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    mutating func validate() throws {
        guard sizes.count >= 2, sizes.allSatisfy({ $0 >= 100 }), rounds >= 1, seconds > 0 else {
            throw ValidationError("Name two sizes of 100 or more; --rounds is at least 1, --seconds above 0.")
        }
    }

    private static let path = "search.limit"

    mutating func run() throws {
        let peer = Peer(kind: .larder, socketPath: socket)
        let probes = try sizes.map { size in
            let namespace = "size\(size)"
            let control = try ControlConnection(to: peer)
            try control.ask(LarderRequest.push(SampleDocument.bytes(count: size), namespace: namespace))
            return try GrowthProbe(peer, path: Self.path, namespace: namespace)
        }
        var same = [LatencyHistogram](repeating: LatencyHistogram(), count: probes.count)
        var new = same
        var changed = same
        var samples = [[Double]](repeating: [], count: probes.count)
        for _ in 0..<rounds {
            var round = [LatencyHistogram](repeating: LatencyHistogram(), count: probes.count)
            try Self.takeTurns(probes, for: seconds, &round) { try $0.sameWords() }
            try Self.takeTurns(probes, for: seconds / 2, &new) { try $0.newWords() }
            for _ in 0..<20 { try Self.takeTurn(probes, &changed) { try $0.afterChange() } }
            for (position, latencies) in round.enumerated() {
                samples[position].append(Double(latencies.percentile(50)) / 1000)
                same[position].add(latencies)
            }
        }
        func metrics(_ position: Int) -> [Report.Metric] {
            func figure(_ key: String, _ title: String, _ histogram: LatencyHistogram) -> Report.Metric {
                .init(key: key, title: title, value: Double(histogram.percentile(50)) / 1000, decimals: 1)
            }
            return [
                figure("p50Microseconds", "same words p50 µs", same[position]),
                figure("newWordsMicroseconds", "new words p50 µs", new[position]),
                figure("afterChangeMicroseconds", "after a change p50 µs", changed[position]),
            ]
        }
        let rows = sizes.indices.map {
            Report.Row(name: String(sizes[$0]), metrics: metrics($0), samples: samples[$0])
        }
        let slopes = metrics(0).map { metric in
            let points = rows.map { row in row.metrics.first { $0.key == metric.key }?.value ?? 0 }
            let slope = Statistics.slope(sizes.map { log(Double($0)) }, points.map { log($0) })
            return "\(metric.title): slope \(NumberText.grouped(slope, decimals: 3))"
        }
        var report = Report(
            benchmark: "growth", headline: "one connection reads a small value of configurations of several sizes",
            parameters: [("rounds", .count(rounds)), ("seconds", .seconds(seconds)), ("path", .text(Self.path))],
            rows: rows, comparedMetric: nil)
        report.notes = slopes
        report.print(asJSON: printsJSON)
    }

    private static func takeTurns(
        _ probes: [GrowthProbe], for seconds: Double, _ latencies: inout [LatencyHistogram],
        _ read: (GrowthProbe) throws -> UInt64
    ) throws {
        // Of each so many as if it were alone.
        let end = MonotonicClock.nanoseconds() &+ UInt64(seconds * Double(probes.count) * 1e9)
        repeat { try takeTurn(probes, &latencies, read) } while MonotonicClock.nanoseconds() < end
    }

    private static func takeTurn(
        _ probes: [GrowthProbe], _ latencies: inout [LatencyHistogram], _ read: (GrowthProbe) throws -> UInt64
    ) throws {
        for (position, probe) in probes.enumerated() { latencies[position].record(try read(probe)) }
    }

    private static func sizes(_ text: String) throws -> [Int] {
        try text.split(separator: ",").map {
            guard let size = Int($0) else { throw ValidationError("--sizes are numbers, separated by commas.") }
            return size
        }
    }
}
