import ArgumentParser
import Foundation

/// `larder-bench image replay`: the hit ratio of the image cache's eviction policy on a trace.
struct ImageReplay: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay", abstract: "Replay a trace against the eviction of the image cache, LRU and Belady.",
        discussion: """
            The trace has one request per line: a key, a comma and a size in bytes. No image is downloaded or stored. \
            Sizes are not rounded up to file system blocks.
            """)

    @Argument(help: ArgumentHelp("The trace.", valueName: "file"))
    var file: String

    @Option(help: "The capacity of the cache in bytes; repeat the option for several capacities.")
    var capacity: [Int] = []

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    func validate() throws {
        guard !capacity.isEmpty, capacity.allSatisfy({ $0 >= 1 }) else {
            throw ValidationError("Pass --capacity with at least 1 byte.")
        }
    }

    func run() throws {
        let trace = try Trace(csv: Data(contentsOf: URL(fileURLWithPath: file)))
        for capacity in capacity { Self.report(trace, capacity: capacity).print(asJSON: printsJSON) }
    }

    /// Returns the hit ratios of all policies at one capacity.
    static func report(_ trace: Trace, capacity: Int) -> Report {
        Report(
            benchmark: "image replay",
            headline:
                "\(trace.requests.count) requests for \(trace.sizes.count) objects of \(trace.sizes.reduce(0, +)) bytes",
            parameters: [("capacity", .count(capacity))],
            rows: [
                row(S3FIFOReplay.self, trace, capacity), row(LRUReplay.self, trace, capacity),
                row(BeladyReplay.self, trace, capacity),
            ], comparedMetric: "hitPercent")
    }

    private static func row<Policy: ReplayPolicy>(_ type: Policy.Type, _ trace: Trace, _ capacity: Int) -> Report.Row {
        var policy = Policy(trace, capacity: capacity)
        var (hits, hitBytes, bytes) = (0, 0, 0)
        for position in trace.requests.indices {
            let size = trace.sizes[Int(trace.requests[position])]
            bytes += size
            if policy.request(position) { (hits, hitBytes) = (hits + 1, hitBytes + size) }
        }
        let share = 100 * Double(hits) / Double(trace.requests.count)
        let byteShare = bytes > 0 ? 100 * Double(hitBytes) / Double(bytes) : 0
        return Report.Row(
            name: Policy.name,
            metrics: [
                .init(key: "hitPercent", title: "hits %", value: share, decimals: 2),
                .init(key: "byteHitPercent", title: "bytes %", value: byteShare, decimals: 2),
            ], samples: [share])
    }
}
