import ArgumentParser
import Glibc
import LarderClient
import LarderClientCore
import LarderJSON

/// `larder-bench stall`: how long reading many records occupies the main actor.
struct StallBenchmark: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "stall", abstract: "Read many records on the main actor, and measure how long that occupies it.",
        discussion: """
            Prints a line for each read: its kind (a view model that follows a value, a value that is decoded, all \
            models of a repository), the longest time for which the main actor ran no other task, and the time until \
            the records were there, in milliseconds. Needs no agent.
            """)

    @Option(help: "The number of records.")
    var records = 50_000

    @Option(help: "The number of reads of each kind.")
    var reads = 5

    @Option(help: "Fail if a read occupies the main actor for longer, in milliseconds.")
    var limit: Double?

    private struct Record: Codable, Identifiable, Sendable {
        var id: String
        var title: String
        var owner: String?
        var tags: [String]
    }

    /// A namespace with one document, which a snapshot contains.
    private struct FixedConfig: ConfigCalls {
        let namespace = LarderClient.defaultNamespace
        let document: LarderSnapshot
        private let change = ConfigChange(revision: 1, epoch: "stall")

        init(_ document: LarderSnapshot) { self.document = document }

        func snapshot(
            at path: String, maximumAge: Duration?, staleIfError: Duration?
        ) async throws(LarderClientError) -> LarderSnapshot { document }

        func snapshots(at path: String, mode: LarderSnapshots.Mode) -> LarderSnapshots {
            LarderSnapshots(
                AsyncStream { continuation in
                    continuation.yield(.snapshot(document))
                    continuation.finish()
                })
        }

        func set(_ value: JSONValue, at path: String, ttl: Duration?) async throws(LarderClientError) -> ConfigChange {
            change
        }
        func apply(
            _ list: ConfigChangeList, ifRevision: RevisionCondition, reason: String?, dryRun: Bool
        ) async throws(LarderClientError) -> ConfigChange? { change }
        func unset(at path: String) async throws(LarderClientError) -> ConfigChange { change }
        func unsetAll() async throws(LarderClientError) -> ConfigChange { change }
        func refresh(force: Bool, timeout: Duration?) async throws(LarderClientError) -> ConfigChange { change }
    }

    mutating func validate() throws {
        guard records >= 1, reads >= 1 else {
            throw ValidationError("--records and --reads must be at least 1.")
        }
    }

    mutating func run() async throws { try await Self.measure(records: records, reads: reads, limit: limit) }

    @MainActor
    private static func measure(records: Int, reads: Int, limit: Double?) async throws {
        let model = ConfigViewModel<[String: Record]>(LarderClient(socket: "/nonexistent").config)
        for revision in 1...reads {
            let config = FixedConfig(snapshot(document(records, revision), revision))
            try await stall("view model", limit) {
                await model.follow(config.snapshots(at: "", mode: .snapshot))
                guard model.value?.count == records else { throw BenchError("the records could not be decoded") }
            }
        }
        for revision in 1...reads {
            let config = FixedConfig(snapshot(document(records, revision), revision))
            var value: [String: Record] = [:]
            try await stall("value", limit) { value = try await config.value(as: [String: Record].self) }
            guard value.count == records else { throw BenchError("the records could not be decoded") }
        }
        try await withExportedFile(.object([("records", document(records, 1))])) { directory in
            let repository = LarderRepository(
                LarderClient(socket: directory + "/none.sock").config, at: "records", of: Record.self,
                currentDirectory: directory)
            for _ in 1...reads {
                var models: [Record] = []
                try await stall("repository", limit) { models = try await repository.all(policy: .cacheOnly) }
                guard models.count == records else { throw BenchError("the records could not be decoded") }
            }
        }
    }

    /// The state of a read that another task of the main actor observes.
    @MainActor
    private final class Read {
        var outcome: Result<Void, any Error>?
    }

    /// Runs a read on the main actor, and prints the longest time for which no other task could run there. The caller
    /// keeps the records, because their release is not a part of the read.
    @MainActor
    private static func stall(
        _ kind: String, _ limit: Double?, _ body: @escaping @MainActor () async throws -> Void
    ) async throws {
        let read = Read()
        let started = MonotonicClock.nanoseconds()
        Task {
            do {
                try await body()
                read.outcome = .success(())
            } catch {
                read.outcome = .failure(error)
            }
        }
        var (last, longest) = (started, started &- started)
        while read.outcome == nil {
            await Task.yield()
            let now = MonotonicClock.nanoseconds()
            longest = max(longest, now &- last)
            last = now
        }
        try read.outcome?.get()
        let milliseconds = Double(longest) / 1e6
        print(kind, milliseconds, Double(last &- started) / 1e6)
        if let limit, milliseconds > limit {
            throw BenchError("the main actor was occupied for \(milliseconds) ms, and the limit is \(limit) ms")
        }
    }

    /// Calls `body` with a directory that has the file which an agent would export.
    @MainActor
    private static func withExportedFile(_ document: JSONValue, _ body: (String) async throws -> Void) async throws {
        var template = Array("/tmp/larder-stall-XXXXXX".utf8CString)
        guard let directory = mkdtemp(&template).map({ String(cString: $0) }) else {
            throw BenchError("cannot create a directory in /tmp")
        }
        let path = directory + "/\(LarderClient.defaultNamespace).json"
        defer {
            unlink(path)
            rmdir(directory)
        }
        guard let file = fopen(path, "w") else { throw BenchError("cannot create \(path)") }
        let isWritten = fputs(document.compactText, file) >= 0
        guard fclose(file) == 0, isWritten else { throw BenchError("cannot write \(path)") }
        try await body(directory)
    }

    private static func snapshot(_ document: JSONValue, _ revision: Int) -> LarderSnapshot {
        LarderSnapshot(value: document, revision: revision, epoch: "stall", state: .fresh)
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
