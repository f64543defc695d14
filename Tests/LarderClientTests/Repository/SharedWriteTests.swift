import LarderClient
import LarderTesting
import Synchronization
import Testing

@Suite("Shared requests of a repository", .timeLimit(.minutes(15)))
struct SharedWriteTests {
    private struct Note: Codable, Identifiable, Equatable, Sendable {
        var id: String
        var text: String
    }

    @Test("if one of many deletions conflicts, the others take few requests, and only that one fails")
    func deletions() async throws {
        let agent = try await TestAgent()
        let config = CountedConfig(agent.client().config)
        let notes = LarderRepository(config, at: "notes", of: Note.self)
        try await notes.importAll((0..<400).map { Note(id: "\($0)", text: "one") })
        try await agent.client().config.set("changed", at: "notes.200.text")
        let count = config.applies.withLock { $0 }
        do throws(LarderClientError) {
            try await notes.deleteAll((0..<400).map { "\($0)" })
            Issue.record("the changed note was deleted")
        } catch {
            #expect(error.remoteError?.conflict?.path == JSONPath(["notes", "200"]))
        }
        let left = try await agent.client().config.snapshot(at: "notes").value
        #expect(left == ["200": ["id": "200", "text": "changed"]])
        #expect(config.applies.withLock { $0 } - count < 40)
    }

    @Test("deletions without comparison also delete models that another client has changed or a lower layer provides")
    func forcedDeletions() async throws {
        let low: JSONValue = ["id": "1", "text": "low"]
        let agent = try await TestAgent(["notes": ["1": low, "2": ["id": "2", "text": "low"]]])
        let client = agent.client()
        let notes = LarderRepository(client.config, at: "notes", of: Note.self)
        try await notes.save(Note(id: "3", text: "one"))
        #expect(try await notes.all().count == 3)
        try await client.config.set("changed", at: "notes.1.text")
        try await client.config.set("changed", at: "notes.3.text")
        try await notes.deleteAll(["1", "2", "3", "4"], ifUnchanged: false)
        #expect(try await client.config.snapshot(at: "notes").value == .emptyObject)
        #expect(try await notes.all().isEmpty)
    }

    @Test("if one of many saves conflicts, the others take few requests, and only that one fails")
    func saves() async throws {
        let agent = try await TestAgent(["notes": ["200": ["id": "200", "text": "theirs"]]])
        let config = CountedConfig(agent.client().config)
        let notes = LarderRepository(config, at: "notes", of: Note.self)
        let failed = await withTaskGroup(of: String?.self) { group in
            for number in 0..<400 {
                group.addTask {
                    do throws(LarderClientError) {
                        try await notes.save(Note(id: "\(number)", text: "mine"))
                        return nil
                    } catch {
                        return error.remoteError?.code == .conflict ? "\(number)" : "\(error)"
                    }
                }
            }
            return await group.reduce(into: [String]()) { if let id = $1 { $0.append(id) } }
        }
        #expect(failed == ["200"])
        #expect(try await notes.all().count == 400)
        #expect(config.applies.withLock { $0 } < 40)
    }
}

/// A namespace of an agent that counts the requests of a repository.
private final class CountedConfig: ConfigCalls {
    let applies = Mutex(0)
    private let config: ConfigClient

    init(_ config: ConfigClient) { self.config = config }

    var namespace: String { config.namespace }

    func snapshot(
        at path: String, maximumAge: Duration?, staleIfError: Duration?
    ) async throws(LarderClientError) -> LarderSnapshot {
        try await config.snapshot(at: path, maximumAge: maximumAge, staleIfError: staleIfError)
    }

    func snapshots(at path: String, mode: LarderSnapshots.Mode) -> LarderSnapshots {
        config.snapshots(at: path, mode: mode)
    }

    func set(_ value: JSONValue, at path: String, ttl: Duration?) async throws(LarderClientError) -> ConfigChange {
        try await config.set(value, at: path, ttl: ttl)
    }

    func apply(
        _ list: ConfigChangeList, ifRevision: RevisionCondition, reason: String?, dryRun: Bool
    ) async throws(LarderClientError) -> ConfigChange? {
        applies.withLock { $0 += 1 }
        return try await config.apply(list, ifRevision: ifRevision, reason: reason, dryRun: dryRun)
    }

    func unset(at path: String) async throws(LarderClientError) -> ConfigChange { try await config.unset(at: path) }

    func unsetAll() async throws(LarderClientError) -> ConfigChange { try await config.unsetAll() }

    func refresh(force: Bool, timeout: Duration?) async throws(LarderClientError) -> ConfigChange {
        try await config.refresh(force: force, timeout: timeout)
    }
}
