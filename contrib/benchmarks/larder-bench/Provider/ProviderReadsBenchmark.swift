import ArgumentParser
import Configuration
import ConfigurationLarder
import LarderClientCore
import LarderJSON

/// `larder-bench provider-reads`: the allocations and the time of a read from the provider for swift-configuration,
/// compared with its provider in memory.
struct ProviderReadsBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provider-reads",
        abstract: "Read values from the provider for swift-configuration, and from InMemoryProvider.",
        discussion: """
            Reads each kind of value many times. Allocations are counted if contrib/benchmarks/counting/allocations.c \
            is loaded with LD_PRELOAD, as contrib/benchmarks/count-provider.sh does.
            """)

    @Option(help: "The agent's socket.")
    var socket: String

    @Option(help: "The number of reads of each kind.")
    var reads = 100_000

    @Option(help: "The namespace to use. The benchmark adds values and removes them at the end.")
    var namespace = "default"

    @Flag(name: .customLong("json"), help: "Print one JSON object instead of a table.")
    var printsJSON = false

    /// A value that is read.
    private struct Sample {
        let name: String
        let type: ConfigType
        /// The value in the agent; nil for a key without a value.
        let json: JSONValue?
        let content: ConfigContent?
    }

    private static let root = "bench-provider"
    private static let text = "a text that is longer than the fifteen bytes of a small string"
    private static let samples = [
        Sample(name: "int", type: .int, json: 25, content: .int(25)),
        Sample(name: "double", type: .double, json: 0.5, content: .double(0.5)),
        Sample(name: "bool", type: .bool, json: true, content: .bool(true)),
        Sample(name: "shortString", type: .string, json: "eu-central", content: .string("eu-central")),
        Sample(name: "longString", type: .string, json: .string(text), content: .string(text)),
        Sample(name: "bytes", type: .bytes, json: "bWFnaWM=", content: .bytes(Array("magic".utf8))),
        Sample(name: "intArray", type: .intArray, json: [1, 2, 3], content: .intArray([1, 2, 3])),
        Sample(
            name: "stringArray", type: .stringArray, json: [.string(text), "b"], content: .stringArray([text, "b"])),
        Sample(name: "missing", type: .int, json: nil, content: nil),
    ]

    mutating func validate() throws {
        guard reads >= 1 else { throw ValidationError("--reads must be at least 1.") }
    }

    mutating func run() async throws {
        let (client, counter) = (LarderClient(socket: socket), AllocationCounter())
        let document = JSONValue.object(Self.samples.compactMap { sample in sample.json.map { (sample.name, $0) } })
        try await client.config.set(document, at: Self.root, namespace: namespace)
        let larder = try await LarderProvider(client: client, namespace: namespace)
        var values: [AbsoluteConfigKey: ConfigValue] = [:]
        for sample in Self.samples {
            values[key(sample)] = sample.content.map { ConfigValue($0, isSecret: false) }
        }
        let inMemory = InMemoryProvider(values: values)
        var rows: [Report.Row] = []
        for sample in Self.samples {
            let own = try measure(larder, sample, counter)
            let other = try measure(inMemory, sample, counter)
            var metrics = [
                Report.Metric(key: "nanoseconds", title: "ns", value: own.nanoseconds, decimals: 1),
                Report.Metric(key: "inMemoryNanoseconds", title: "in memory ns", value: other.nanoseconds, decimals: 1),
            ]
            if counter != nil {
                metrics += [
                    Report.Metric(key: "allocations", title: "allocations", value: own.allocations, decimals: 2),
                    Report.Metric(
                        key: "inMemoryAllocations", title: "in memory allocations", value: other.allocations,
                        decimals: 2),
                ]
            }
            rows.append(Report.Row(name: sample.name, metrics: metrics, samples: []))
        }
        _ = try? await client.config.unset(at: Self.root, namespace: namespace)
        Report(
            benchmark: "provider-reads",
            headline: "\(NumberText.grouped(Double(reads), decimals: 0)) reads of each kind of value",
            parameters: [("reads", .count(reads)), ("namespace", .text(namespace))], rows: rows, comparedMetric: nil,
            notes: counter == nil ? ["allocations are not counted: use contrib/benchmarks/count-provider.sh"] : []
        ).print(asJSON: printsJSON)
    }

    private func key(_ sample: Sample) -> AbsoluteConfigKey { AbsoluteConfigKey([Self.root, sample.name]) }

    /// Returns the averages of one read.
    private func measure(
        _ provider: some ConfigProvider, _ sample: Sample, _ counter: AllocationCounter?
    ) throws -> (nanoseconds: Double, allocations: Double) {
        let key = key(sample)
        // The first read is not measured, because it may fill caches.
        guard try provider.value(forKey: key, type: sample.type).value?.content == sample.content else {
            throw BenchError(.unexpected, "\(provider.providerName) has another value at \(key)")
        }
        let (calls, started) = (counter?.calls ?? 0, MonotonicClock.nanoseconds())
        for _ in 0..<reads { _ = try provider.value(forKey: key, type: sample.type) }
        let (ended, callsAfterwards) = (MonotonicClock.nanoseconds(), counter?.calls ?? 0)
        return (Double(ended - started) / Double(reads), Double(callsAfterwards - calls) / Double(reads))
    }
}
