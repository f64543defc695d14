import ArgumentParser
import LarderClientCore
import LarderJSON

/// `larder-bench mapped`: the time to look up a value in a mapped snapshot, compared with a dictionary in memory.
struct MappedBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mapped", abstract: "Look up values in a mapped snapshot and in a dictionary.",
        discussion: """
            Looks up the same values one at a time in the same random order: in the file that config.open passes, and in \
            a Dictionary<String, String>. The methods alternate, round by round. Values are not copied or converted.
            """)

    @Option(help: ArgumentHelp("The agent's socket.", valueName: "path"))
    var socket: String

    @OptionGroup var timing: RoundOptions

    /// The path below which the benchmark sets its values. It changes no other values of the namespace `default`.
    private static let root = "larder-bench-mapped"
    /// The number of services, each with 100 values.
    private static let services = 100

    mutating func run() async throws {
        let client = LarderClient(socket: socket)
        let document = Self.object("service", Self.services) { service in
            Self.object("pool", 10) { pool in
                Self.object("setting", 10) { setting in
                    setting.isMultiple(of: 2) ? .int(service * 100 + pool * 10 + setting) : "a text"
                }
            }
        }
        try await client.config.set(document, at: Self.root)
        let snapshot = try await client.config.mappedSnapshot()
        _ = try await client.config.unset(at: Self.root)
        let values = (0..<Self.services * 100).map { number in
            let names = ["service\(number / 100)", "pool\(number / 10 % 10)", "setting\(number % 10)"]
            return (
                path: "\(Self.root).\(names.joined(separator: "."))",
                text: document.value(at: JSONPath(names))?.compactText ?? ""
            )
        }
        for value in values {
            let text = try snapshot.withText(at: value.path) { $0.map { String(decoding: $0, as: UTF8.self) } }
            guard text == value.text else { throw BenchError("\(value.path) is \(text ?? "missing")") }
        }
        let dictionary = Dictionary(uniqueKeysWithValues: values.map { ($0.path, $0.text) })
        let paths = values.map(\.path).shuffled()
        let sizes = paths.map { dictionary[$0]?.utf8.count }
        var samples: [[Double]] = [[], []]
        for _ in 0..<timing.rounds {
            samples[0].append(
                try nanoseconds(paths.count) { (try? snapshot.withText(at: paths[$0]) { $0?.count }) == sizes[$0] })
            samples[1].append(try nanoseconds(paths.count) { dictionary[paths[$0]]?.utf8.count == sizes[$0] })
        }
        let rows = zip(["mapped", "dictionary"], samples).map { name, samples in
            Report.Row(
                name: name, metrics: [("nanosecondsPerLookup", Statistics.median(samples))], samples: samples)
        }
        Report(
            benchmark: "mapped", headline: "\(paths.count) values, one lookup at a time, \(timing.text)", rows: rows,
            comparedMetric: "nanosecondsPerLookup"
        ).print()
    }

    /// Returns an object with `count` members whose names are `name` and a number.
    private static func object(_ name: String, _ count: Int, _ value: (Int) -> JSONValue) -> JSONValue {
        .object((0..<count).map { ("\(name)\($0)", value($0)) })
    }

    /// Returns the average time of a lookup in one round.
    /// - Parameters:
    ///   - lookUp: looks up the value with the given number, and returns whether it has the expected size
    private func nanoseconds(_ count: Int, _ lookUp: (Int) -> Bool) throws(BenchError) -> Double {
        let started = MonotonicClock.nanoseconds()
        var (lookups, now) = (0, started)
        repeat {
            // Reading the clock can take as long as a lookup, so the clock is read only once for several lookups.
            for _ in 0..<1000 {
                guard lookUp(lookups % count) else { throw BenchError("a lookup found another value") }
                lookups += 1
            }
            now = MonotonicClock.nanoseconds()
        } while Double(now &- started) < timing.seconds * 1e9
        return Double(now &- started) / Double(lookups)
    }
}
