import ArgumentParser
import Configuration
import ConfigurationLarder
import LarderClientCore
import LarderJSON

/// `larder-bench provider-delay`: the time from a change to the value that a watch of the provider for
/// swift-configuration delivers.
struct ProviderDelayBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provider-delay", abstract: "Measure the delay of watchInt after a change.",
        discussion: """
            Sets an integer and waits until watchInt delivers it, many times in sequence. The time starts before the \
            request to set the value is sent, so it includes the commit of the change.
            """)

    @Option(help: "The agent's socket.")
    var socket: String

    @Option(help: "The number of changes.")
    var changes = 1000

    @Option(help: "The namespace to use. The benchmark adds a value and removes it at the end.")
    var namespace = "default"

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    private static let key = "bench-provider-delay"

    mutating func validate() throws {
        guard changes >= 1 else { throw ValidationError("--changes must be at least 1.") }
    }

    mutating func run() async throws {
        let (client, namespace, changes) = (LarderClient(socket: socket), namespace, changes)
        try await client.config.set(0, at: Self.key, namespace: namespace)
        let provider = try await LarderProvider(client: LarderClient(socket: socket), namespace: namespace)
        let milliseconds = try await ConfigReader(provider: provider).watchInt(
            forKey: ConfigKey([Self.key]), default: -1
        ) { updates in
            var (milliseconds, updates) = ([Double](), updates.makeAsyncIterator())
            // The current value.
            _ = await updates.next(isolation: #isolation)
            for number in 1...changes {
                let started = MonotonicClock.nanoseconds()
                try await client.config.set(.int(number), at: Self.key, namespace: namespace)
                guard await updates.next(isolation: #isolation) == number else {
                    throw BenchError(.unexpected, "the watch did not deliver \(number), the value that was set")
                }
                milliseconds.append(Double(MonotonicClock.nanoseconds() - started) / 1e6)
            }
            return milliseconds
        }
        _ = try? await client.config.unset(at: Self.key, namespace: namespace)
        Report(
            benchmark: "provider-delay",
            headline: "\(NumberText.grouped(Double(changes), decimals: 0)) changes, one at a time",
            parameters: [("changes", .count(changes)), ("namespace", .text(namespace))],
            rows: [
                Report.Row(
                    name: "watchInt",
                    metrics: [
                        Report.Metric(
                            key: "medianMilliseconds", title: "median ms", value: Statistics.median(milliseconds),
                            decimals: 2),
                        Report.Metric(
                            key: "p99Milliseconds", title: "p99 ms", value: Statistics.percentile(milliseconds, 99),
                            decimals: 2),
                        Report.Metric(
                            key: "maxMilliseconds", title: "max ms", value: milliseconds.max() ?? 0, decimals: 2),
                    ], samples: milliseconds)
            ], comparedMetric: nil
        ).print(asJSON: printsJSON)
    }
}
