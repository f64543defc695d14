import ArgumentParser
import LarderClient
import LarderClientCore
import LarderJSON

/// `larder-bench collection`: how long changes of a large collection take.
struct CollectionBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "collection", abstract: "Change a large collection of records, and measure how long that takes.",
        discussion: """
            Removes all overrides of the namespace first. Prints a line for each kind of change, with the time in \
            milliseconds: all calls of config.apply together, one set and one save beside the records (the median), \
            and an import of all records. Use an agent whose limits admit the records.
            """)

    @Option(help: "The socket of the agent.")
    var socket: String

    @Option(help: "The number of records beside which one is set or saved.")
    var records = 25_000

    @Option(help: "The number of records of the import.")
    var imported = 150_000

    @Option(help: "The number of sets and saves.")
    var repetitions = 50

    @Option(help: "Seconds after which a call fails.")
    var timeout = 120

    private struct Record: Codable, Identifiable, Sendable {
        var id: String
        var title: String
        var count: Int

        init(_ number: Int) {
            (id, title, count) = ("record-\(number)", "The title of record \(number)", number)
        }
        var json: JSONValue {
            .object([("id", .string(id)), ("title", .string(title)), ("count", .int(count))])
        }
    }

    mutating func validate() throws {
        guard records >= 1, imported >= 1, repetitions >= 1, timeout >= 1 else {
            throw ValidationError("All numbers must be at least 1.")
        }
    }

    mutating func run() async throws {
        let (records, imported, repetitions) = (records, imported, repetitions)
        var configuration = LarderClient.Configuration()
        configuration.timeout = .seconds(timeout)
        try await LarderClient.withConnection(socket: socket, configuration: configuration) { client in
            let config = client.config
            try await config.unsetAll()
            let repository = LarderRepository(config, at: "records", of: Record.self)
            try await Self.report("config.apply, 1,000 records in each of \((records + 999) / 1000) calls") {
                for start in stride(from: 0, to: records, by: 1000) {
                    try await config.apply { changes in
                        for number in start..<min(start + 1000, records) {
                            changes.set(Record(number).json, at: "records.record-\(number)")
                        }
                    }
                }
            }
            try await Self.report("set beside \(records) records", repetitions: repetitions) { round in
                try await config.set(Record(round &* 7).json, at: "records.record-\(round)")
            }
            try await Self.report("save beside \(records) records", repetitions: repetitions) { round in
                try await repository.save(Record(records &+ round))
            }
            try await config.unsetAll()
            try await Self.report("import of \(imported) records") {
                try await repository.importAll((0..<imported).map(Record.init))
            }
            try await config.unsetAll()
        }
    }

    /// Prints the time of one call.
    private static func report(_ kind: String, _ body: () async throws -> Void) async throws {
        try await report(kind, repetitions: 1) { _ in try await body() }
    }
    /// Prints the median of several calls.
    private static func report(
        _ kind: String, repetitions: Int, _ body: (Int) async throws -> Void
    ) async throws {
        var times: [UInt64] = []
        for round in 0..<repetitions {
            let started = MonotonicClock.nanoseconds()
            try await body(round)
            times.append(UInt64(MonotonicClock.nanoseconds() &- started))
        }
        print(kind, Double(times.sorted()[times.count / 2]) / 1e6)
    }
}
