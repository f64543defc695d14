import ArgumentParser
import Foundation
import LarderJSON

/// `larder-bench image start`: what many images cost at the start, and in memory.
struct ImageStartBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "start", abstract: "Start an agent with many images, and one with none, in turn.",
        discussion: """
            Measures the time from before the start until the agent says that it is ready (sd_notify(3)), and its resident \
            memory some time after that. The directory is one that `image fill` made.
            """)

    @Option(help: ArgumentHelp("The agent's program.", valueName: "file"))
    var larderd: String

    @Option(help: "What `image fill` left.")
    var directory: String

    @Option(help: "Starts of each.")
    var rounds = 5

    // What the start needed is given back after five.
    @Option(help: "Seconds between the start and the look at the memory.")
    var settle = 7.0

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    func validate() throws {
        guard rounds >= 1, settle >= 0 else { throw ValidationError("--rounds is at least 1, --settle at least 0.") }
    }

    /// What the starts of one agent showed.
    private struct Starts {
        let name: String
        let directory: String
        var milliseconds: [Double] = []
        var megabytes: [Double] = []
        var entries = 0
    }

    func run() throws {
        let bare = directory + "/bare"
        try MeasuredAgent.writeSettings(in: bare, maximumImages: 100_000)
        defer { try? FileManager.default.removeItem(atPath: bare) }
        var agents = [Starts(name: "full", directory: directory), Starts(name: "empty", directory: bare)]
        for _ in 0..<rounds {
            for position in agents.indices {
                let agent = try MeasuredAgent(larderd, in: agents[position].directory)
                usleep(UInt32(min(settle, 60) * 1e6))
                let memory = try ResidentMemory.of(process: agent.process)
                agents[position].milliseconds.append(Double(agent.readyNanoseconds) / 1e6)
                agents[position].megabytes.append(Double(memory.residentBytes) / 1e6)
                agents[position].entries = try agent.images()["entries"]?.int ?? 0
                try agent.stop()
            }
        }
        let emptyMegabytes = Statistics.median(agents[1].megabytes)
        let rows = agents.map { starts in
            let megabytes = Statistics.median(starts.megabytes)
            return Report.Row(
                name: starts.name,
                metrics: [
                    .init(key: "images", title: "images", value: Double(starts.entries)),
                    .init(
                        key: "readyMilliseconds", title: "ready ms", value: Statistics.median(starts.milliseconds),
                        decimals: 1),
                    .init(key: "residentMegabytes", title: "resident MB", value: megabytes, decimals: 1),
                    .init(key: "moreMegabytes", title: "more MB", value: megabytes - emptyMegabytes, decimals: 1),
                ], samples: starts.milliseconds)
        }
        Report(
            benchmark: "image start", headline: "\(rounds) starts of each, memory after \(settle) s",
            parameters: [("rounds", .count(rounds)), ("settle", .seconds(settle))], rows: rows, comparedMetric: nil
        ).print(asJSON: printsJSON)
    }
}
