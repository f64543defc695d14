import ArgumentParser

/// `larder-bench mapped`: the time to look up a value in a mapped snapshot, compared with a dictionary in memory and
/// with requests to a server.
struct MappedBenchmark: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mapped", abstract: "Look values up in a mapped snapshot, in a dictionary, and at servers.",
        discussion: """
            The same values, in the same order that chance decided, one at a time: from the file that config.open passes; \
            from a Dictionary<String, String>; by GET from Redis and by config.get from the agent, over one connection \
            each. All take turns, round by round. A value is looked at, not copied or converted.
            """)

    @OptionGroup var servers: PeerOptions

    @Option(help: "How many values there are.")
    var values = 10_000

    @Option(help: "Rounds for each.")
    var rounds = 5

    @Option(help: "Seconds for each round.")
    var seconds = 1.0

    @Option(help: "The namespace to use. The benchmark sets its values there, and takes them away.")
    var namespace = "default"

    mutating func validate() throws {
        guard servers.larderSocket != nil else { throw ValidationError("Name an agent: --socket.") }
        guard 1...20_000 ~= values, rounds >= 1, seconds > 0 else {
            throw ValidationError("Numbers have to be at least 1, --values at most 20,000, --seconds above 0.")
        }
    }

    mutating func run() throws {
        guard let socket = servers.larderSocket else { return }
        let table = LookupTable(count: values)
        let agent = try LookupAgent(socket: socket, namespace: namespace, table: table)
        defer { agent.clear() }
        var ways: [any LookupWay] = [try agent.mapped()]
        if let socket = servers.redisSocket { ways.append(try RedisLookup(socket: socket, table: table)) }
        ways += [DictionaryLookup(table: table), agent]
        var samples = [[Double]](repeating: [], count: ways.count)
        for _ in 0..<rounds {
            for (position, way) in ways.enumerated() {
                samples[position].append(try nanoseconds(of: way, in: table))
            }
        }
        let rows = zip(ways, samples).map { way, samples in
            Report.Row(
                name: way.name,
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
    private func nanoseconds(of way: any LookupWay, in table: LookupTable) throws(BenchError) -> Double {
        let length = UInt64(seconds * 1e9)
        let started = MonotonicClock.nanoseconds()
        var (lookups, now) = (0, started)
        repeat {
            // Reading the clock takes as long as a lookup, so it is read once for many.
            for _ in 0..<way.lookupsAtOnce {
                try way.look(at: table.order[lookups % table.order.count])
                lookups += 1
            }
            now = MonotonicClock.nanoseconds()
        } while now &- started < length
        return Double(now &- started) / Double(lookups)
    }
}
