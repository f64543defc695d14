import ArgumentParser
import LarderJSON

/// `larder-bench image evict`: what reading configuration costs while many images are evicted.
struct ImageEvictionBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict", abstract: "Read configuration before and while many images are evicted.",
        discussion: """
            Starts an agent in a directory that `image fill` made, reads one value over a few connections, lowers the \
            limit of images, and reads on until so many of them are gone. They are then missing in the directory.
            """)

    @Option(help: ArgumentHelp("The agent's program.", valueName: "file"))
    var larderd: String

    @Option(help: "What `image fill` left.")
    var directory: String

    @Option(help: "How many images have to go.")
    var count = 10_000

    @Option(help: "Connections that read, one request each at a time.")
    var connections = 4

    @Option(help: "Seconds to read before, to know what is usual.")
    var seconds = 5.0

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    func validate() throws {
        guard count >= 1, connections >= 1, seconds > 0 else {
            throw ValidationError("Numbers have to be at least 1, --seconds above 0.")
        }
    }

    func run() throws {
        let agent = try MeasuredAgent(larderd, in: directory)
        guard let entries = try agent.images()["entries"]?.int, entries > count else {
            throw BenchError(.unsuitable, "\(directory) holds no more than \(count) images: fill it first")
        }
        let batch = try GetBatch(
            peer: agent.peer, path: "search.limit", namespace: "default", value: "22", depth: 1)
        let probe = try LatencyProbe(batch, connections: connections)
        // What a start leaves to be done later is over by then.
        _ = try probe.run(seconds: min(seconds, 2))
        let usual = try probe.run(seconds: seconds)

        try MeasuredAgent.writeSettings(in: directory, maximumImages: entries - count)
        agent.reload()
        var during = LatencyHistogram()
        let start = MonotonicClock.nanoseconds()
        var left = entries
        repeat {
            during.add(try probe.run(seconds: 0.02))
            left = try agent.images()["entries"]?.int ?? 0
        } while left > entries - count && MonotonicClock.nanoseconds() &- start < 120_000_000_000
        let milliseconds = Double(MonotonicClock.nanoseconds() &- start) / 1e6
        guard left <= entries - count else {
            throw BenchError(.unexpected, "only \(entries - left) of \(count) images were evicted in two minutes")
        }
        try agent.stop()
        report(usual, during, milliseconds)
    }

    private func report(_ usual: LatencyHistogram, _ during: LatencyHistogram, _ milliseconds: Double) {
        func row(_ name: String, _ latencies: LatencyHistogram, _ more: [Report.Metric] = []) -> Report.Row {
            func figure(_ name: String, _ nanoseconds: UInt64) -> Report.Metric {
                .init(key: "\(name)Microseconds", title: "\(name) µs", value: Double(nanoseconds) / 1000, decimals: 1)
            }
            let figures = [
                figure("p50", latencies.percentile(50)), figure("p99", latencies.percentile(99)),
                figure("max", latencies.maximum),
            ]
            return Report.Row(
                name: name, metrics: figures + more, samples: [Double(latencies.percentile(99)) / 1000])
        }
        let added = (Double(during.percentile(99)) - Double(usual.percentile(99))) / 1e6
        Report(
            benchmark: "image evict",
            headline: "config.get over \(connections) connections while \(count) images are evicted",
            parameters: [
                ("count", .count(count)), ("connections", .count(connections)), ("seconds", .seconds(seconds)),
            ],
            rows: [
                row(
                    "evicting", during,
                    [
                        .init(key: "addedMilliseconds", title: "p99 added ms", value: added, decimals: 3),
                        .init(key: "evictionMilliseconds", title: "took ms", value: milliseconds),
                    ]), row("usual", usual),
            ], comparedMetric: nil
        ).print(asJSON: printsJSON)
    }
}
