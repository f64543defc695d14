import ArgumentParser
import LarderClient
import LarderClientCore
import LarderJSON

/// `larder-bench stall`: how long a view model with many records occupies the main actor.
struct StallBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stall", abstract: "Decode many records for a view model, and measure the main actor.",
        discussion: """
            Prints two numbers for each snapshot that the model receives, in milliseconds: the longest time for which \
            the main actor ran no other task, and the time until the model had the decoded value and had released the \
            previous one. Needs no agent.
            """)

    @Option(help: "The number of records.")
    var records = 50_000

    @Option(help: "The number of snapshots.")
    var snapshots = 5

    private struct Record: Codable, Sendable {
        var id: String
        var title: String
        var owner: String?
        var tags: [String]
    }

    /// Whether the view model has received a snapshot.
    @MainActor
    private final class Receipt {
        var isComplete = false
    }

    mutating func validate() throws {
        guard records >= 1, snapshots >= 1 else {
            throw ValidationError("--records and --snapshots must be at least 1.")
        }
    }

    mutating func run() async throws { try await Self.measure(records: records, snapshots: snapshots) }

    @MainActor
    private static func measure(records: Int, snapshots: Int) async throws {
        let model = ConfigViewModel<[String: Record]>(LarderClient(socket: "/nonexistent").config)
        for revision in 1...snapshots {
            let snapshot = LarderSnapshot(
                value: document(records, revision), revision: revision, epoch: "stall", state: .fresh)
            let receipt = Receipt()
            let started = MonotonicClock.nanoseconds()
            Task {
                await model.follow(
                    LarderSnapshots(
                        AsyncStream { continuation in
                            continuation.yield(.snapshot(snapshot))
                            continuation.finish()
                        }))
                receipt.isComplete = true
            }
            var (last, longest) = (started, started &- started)
            while !receipt.isComplete {
                await Task.yield()
                let now = MonotonicClock.nanoseconds()
                longest = max(longest, now &- last)
                last = now
            }
            guard model.value?.count == records else { throw BenchError("the records could not be decoded") }
            print(Double(longest) / 1e6, Double(last &- started) / 1e6)
        }
    }

    private static func document(_ records: Int, _ revision: Int) -> JSONValue {
        .object(
            (0..<records).map { number in
                (
                    "record-with-a-long-name-\(number)",
                    [
                        "id": .string("record-with-a-long-name-\(number)"),
                        "title": .string("the title of record \(number) in revision \(revision)"),
                        "owner": "ada@example.org", "tags": ["first-tag-of-the-record", "second-tag-of-the-record"],
                    ]
                )
            })
    }
}
