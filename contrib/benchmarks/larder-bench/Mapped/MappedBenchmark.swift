import ArgumentParser

/// `larder-bench mapped`: the time to look up a value in a mapped snapshot, compared with a dictionary in memory and
/// with requests to a server.
struct MappedBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mapped", abstract: "Look up values in a mapped snapshot, in a dictionary, and on servers.",
        discussion: """
            Looks up the same values one at a time in the same random order: in the file that config.open passes, in a \
            Dictionary<String, String>, with GET from Redis, and with config.get from the agent, over one connection \
            each. The methods alternate, round by round. Values are not copied or converted.
            """)

    @OptionGroup var servers: PeerOptions

    @Option(help: "The number of values.")
    var values = 10_000

    @Option(help: "The number of rounds for each method.")
    var rounds = 5

    @Option(help: "The length of a round in seconds.")
    var seconds = 1.0

    @Option(help: "The namespace to use. The benchmark adds values and removes them at the end.")
    var namespace = "default"

    mutating func validate() throws {
        guard servers.larderSocket != nil else { throw ValidationError("Pass the agent's socket with --socket PATH.") }
        guard 1...20_000 ~= values, rounds >= 1, seconds > 0 else {
            throw ValidationError("--values must be 1 to 20,000, --rounds at least 1, --seconds above 0.")
        }
    }

    mutating func run() throws {
        guard let socket = servers.larderSocket else { return }
        let table = LookupTable(count: values)
        let agent = try LookupAgent(socket: socket, namespace: namespace, table: table)
        defer { agent.clear() }
        var methods: [any LookupMethod] = [try agent.mapped()]
        if let socket = servers.redisSocket { methods.append(try RedisLookup(socket: socket, table: table)) }
        methods += [DictionaryLookup(table: table), agent]
        var samples = [[Double]](repeating: [], count: methods.count)
        for _ in 0..<rounds {
            for (position, method) in methods.enumerated() {
                samples[position].append(try nanoseconds(of: method, in: table))
            }
        }
        let rows = zip(methods, samples).map { method, samples in
            Report.Row(
                name: method.name,
                metrics: [
                    Report.Metric(
                        key: "nanosecondsPerLookup", title: "ns/lookup", value: Statistics.median(samples), decimals: 1)
                ],
                samples: samples)
        }
        Report(
            benchmark: "mapped",
            headline: "\(NumberText.grouped(Double(values), decimals: 0)) values, one lookup at a time, "
                + "\(rounds) rounds of \(NumberText.grouped(seconds, decimals: 1)) s",
            parameters: [
                ("values", .count(values)), ("rounds", .count(rounds)), ("seconds", .seconds(seconds)),
                ("namespace", .text(namespace)), ("fileBytes", .count(agent.fileBytes)),
            ],
            rows: rows, comparedMetric: "nanosecondsPerLookup"
        )
        .print(asJSON: servers.printsJSON)
    }

    /// Returns the average time of a lookup in one round.
    private func nanoseconds(of method: any LookupMethod, in table: LookupTable) throws(BenchError) -> Double {
        let length = UInt64(seconds * 1e9)
        let started = MonotonicClock.nanoseconds()
        var (lookups, now) = (0, started)
        repeat {
            // Reading the clock can take as long as a lookup, so the clock is read only once for several lookups.
            for _ in 0..<method.lookupsPerClockReading {
                try method.lookUp(table.order[lookups % table.order.count])
                lookups += 1
            }
            now = MonotonicClock.nanoseconds()
        } while now &- started < length
        return Double(now &- started) / Double(lookups)
    }
}
