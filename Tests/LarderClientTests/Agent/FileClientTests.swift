import Foundation
import LarderClient
import LarderTesting
import Synchronization
import TestSupport
import Testing

/// The origin of a client's values: an agent, or a file.
enum Backend: CaseIterable {
    case agent, file

    /// Runs `body` with a client of a document, and a function that replaces the document.
    @MainActor
    func with(
        _ document: JSONValue, _ body: @MainActor (LarderClient, (JSONValue) async throws -> Void) async throws -> Void
    ) async throws {
        switch self {
        case .agent:
            let agent = try await TestAgent(document)
            try await body(agent.client()) { try await agent.publish($0) }
        case .file:
            try await withTemporaryDirectory { directory in
                let path = directory + "/config.json"
                func write(_ document: JSONValue) throws {
                    try Data(document.description.utf8).write(to: URL(filePath: path), options: .atomic)
                }
                try write(document)
                try await body(LarderClient(contentsOf: path)) { try write($0) }
            }
        }
    }
}

@Suite("Clients of a file, compared with those of an agent", .timeLimit(.minutes(15)))
@MainActor
struct FileClientTests {
    private struct Search: Codable, Equatable {
        var limit: Int
        var hosts: [String]
    }

    @Test(
        "values are decoded; a missing value has the default, or is the error `notFound`", arguments: Backend.allCases)
    func values(of backend: Backend) async throws {
        try await backend.with(["search": ["limit": 10, "hosts": ["a"]], "absent": .null]) { client, publish in
            let config = client.config
            #expect(try await config.value(at: "search", as: Search.self) == Search(limit: 10, hosts: ["a"]))
            #expect(try await config.value(at: "search.limit", as: Int.self) == 10)
            #expect(try await config.value(at: "search.nothing", as: Int.self, default: 5) == 5)
            for path in ["search.nothing", "absent"] {
                let missing = await error { try await config.value(at: path, as: Int.self) }
                #expect(missing?.remoteError?.code == .notFound)
            }
            #expect(await error { try await config.value(at: "/~", as: Int.self) }?.code == .invalidArgument)
            let unknown = await error { try await config["shop"].snapshot() }
            #expect(unknown?.remoteError?.code == .unknownNamespace)
            try await publish(["search": ["limit": 20]])
            #expect(try await config.value(at: "search.limit", as: Int.self) == 20)
        }
    }

    @Test("a snapshot has the whole document, and a change has a greater revision", arguments: Backend.allCases)
    func snapshot(of backend: Backend) async throws {
        try await backend.with(["limit": 10]) { client, publish in
            let first = try await client.config.snapshot()
            #expect(first.value == ["limit": 10] && first.state == .fresh && first.namespace == "default")
            try await publish(["limit": 20])
            let second = try await client.config.snapshot()
            #expect(second.value == ["limit": 20] && second.epoch == first.epoch && second.revision > first.revision)
        }
    }

    @Test(
        "a stream delivers the value at its path, and then each change of this value",
        arguments: Backend.allCases, [LarderSnapshots.Mode.snapshot, .patch])
    func snapshots(of backend: Backend, mode: LarderSnapshots.Mode) async throws {
        try await backend.with(["search": ["limit": 10]]) { client, publish in
            var snapshots = client.config.snapshots(at: "search.limit", mode: mode).makeAsyncIterator()
            #expect(try await snapshots.next()?.value == 10)
            try await publish(["search": ["limit": 10, "hosts": []]])
            try await publish(["search": ["limit": 20, "hosts": []]])
            #expect(try await snapshots.next()?.value == 20)
            try await publish(["other": true])
            let absent = try #require(await snapshots.next())
            #expect(absent.value == nil && absent.state == .fresh)
        }
    }

    @Test("a stream in the mode `revision` delivers the revisions", arguments: Backend.allCases)
    func revisions(of backend: Backend) async throws {
        try await backend.with(["limit": 10]) { client, publish in
            var snapshots = client.config.snapshots(mode: .revision).makeAsyncIterator()
            let first = try #require(await snapshots.next())
            try await publish(["limit": 20])
            let second = try #require(await snapshots.next())
            #expect(second.revision > first.revision && second.value == nil)
            #expect(try await client.config.snapshot().revision == second.revision)
        }
    }

    @Test(
        "a wait returns when its condition holds, now or later, and fails after its timeout",
        arguments: Backend.allCases)
    func wait(with backend: Backend) async throws {
        try await backend.with(["limit": 10]) { client, publish in
            let config = client.config
            let now = try await config.wait(for: .equals(10), at: "limit")
            #expect(now.value == 10)
            try await config.wait(for: .exists(false), at: "nothing")
            try await config.wait(for: .notEquals(5), at: "nothing")
            try await config.wait(for: .revisionAtLeast(now.revision, epoch: now.epoch))
            let late = await error { try await config.wait(for: .equals(20), at: "limit", timeout: .zero) }
            #expect(late?.remoteError?.code == .timeout)

            let conditions: [WaitCondition] = [
                .equals(20), .notEquals(10), .revisionAtLeast(now.revision + 1, epoch: nil),
            ]
            let waits = conditions.map { condition in
                Task { try await config.wait(for: condition, at: "limit").value }
            }
            let cancelled = Task { try await config.wait(for: .equals(30), at: "limit") }
            cancelled.cancel()
            #expect(await error { try await cancelled.value }?.code == .cancelled)
            try await publish(["limit": 20])
            for wait in waits { #expect(try await wait.value == 20) }
        }
    }

    @Test("a view model follows the values, and keeps the last good one", arguments: Backend.allCases)
    func viewModel(of backend: Backend) async throws {
        try await backend.with(["limit": 10]) { client, publish in
            let model = ConfigViewModel(client.config, at: "limit", as: Int.self, default: 5)
            let following = Task { await model.follow() }
            await LarderClientTests.wait { model.value == 10 }
            try await publish(["limit": "x"])
            await LarderClientTests.wait { model.lastError?.code == .decodingFailed }
            #expect(model.value == 10)
            try await publish(["limit": 20])
            await LarderClientTests.wait { model.value == 20 }
            following.cancel()
            await following.value
        }
    }

    private struct Note: Codable, Identifiable, Equatable {
        var id: String
        var text: String
    }

    @Test("a repository reads models, alone and together, and its streams follow them", arguments: Backend.allCases)
    func repository(of backend: Backend) async throws {
        func document(_ text: String) -> JSONValue { ["notes": ["1": ["id": "1", "text": .string(text)]]] }
        try await backend.with(document("one")) { client, publish in
            let notes = LarderRepository(client.config, at: "notes", of: Note.self)
            var changes = notes.contentChanges.makeAsyncIterator()
            for text in ["one", "two"] {
                if text == "two" { try await publish(document(text)) }
                let note = Note(id: "1", text: text)
                let next = try await changes.next()
                #expect(next?.models == [note])
                let (all, contents, loaded) = (
                    try await notes.all(), try await notes.contents(), try await notes.load("1")
                )
                #expect(all == [note] && contents.models == [note] && loaded == note)
            }
        }
    }

    @Test("calls that need an agent throw `unsupported`, and name the method and the file")
    func unsupported() async throws {
        try await Backend.file.with(["limit": 10]) { client, _ in
            let errors = [
                await error { try await client.config.set(20, at: "limit") },
                await error { try await client.config.update(at: "limit", as: Int.self) { $0 += 1 } },
                await error { try await client.config.mappedSnapshot() },
                await error { try await client.config.status() },
                await error { try await client.images.get("https://img.example.org/logo.png") },
                await error { try await client.agent.ping() },
                await error { try await client.call("agent.info") },
                await error {
                    try await LarderRepository(client.config, at: "notes", of: Note.self).save(Note(id: "1", text: ""))
                },
            ]
            for error in errors {
                #expect(error?.code == .unsupported && error?.isRetryable == false && error?.advice != nil)
                #expect(error?.reason.contains("/config.json") == true)
            }
            #expect(errors[0]?.reason.contains("config.set") == true)
            let model = ConfigViewModel(client.config, at: "limit", as: Int.self)
            #expect(await model.set(20) == false)
            #expect(model.lastError?.code == .unsupported)
            let limit = try await client.config.value(at: "limit", as: Int.self)
            #expect(limit == 10)
        }
    }

    @Test("while the file is missing or invalid, the last good document stays, and the state is `stale`")
    func invalidContent() async throws {
        try await withTemporaryDirectory { directory in
            let file = URL(filePath: directory + "/config.json")
            try Data(#"{"limit":10}"#.utf8).write(to: file)
            let client = try LarderClient(contentsOf: file.path, namespace: "shop")
            let config = client.config
            for text in ["", "{", "[]", nil] {
                if let text {
                    try Data(text.utf8).write(to: file)
                } else {
                    try FileManager.default.removeItem(at: file)
                }
                let snapshot = try await config["shop"].snapshot()
                #expect(snapshot.value == ["limit": 10] && snapshot.state == .stale && snapshot.revision == 1)
            }
            try Data(#"{"limit":10}"#.utf8).write(to: file)
            let restored = try await config["shop"].snapshot()
            #expect(restored.state == .fresh && restored.revision == 1)
        }
    }

    @Test("an event says why a file is not used, once for each reason")
    func invalidFileEvents() async throws {
        try await withTemporaryDirectory { directory in
            let file = URL(filePath: directory + "/config.json")
            func write(_ text: String) throws { try Data(text.utf8).write(to: file, options: .atomic) }
            try write(#"{"limit":10}"#)
            let reasons = Mutex<[String]>([])
            let configuration = LarderClient.Configuration { event in
                if case .invalidFile(let error) = event { reasons.withLock { $0.append(error.reason) } }
            }
            let config = try LarderClient(contentsOf: file.path, configuration: configuration).config
            for text in ["[]", #"{"limit":10}"#, "[]"] {
                try write(text)
                for _ in 0..<2 {
                    let snapshot = try await config.snapshot()
                    #expect(snapshot.state == (text == "[]" ? .stale : .fresh))
                }
            }
            let reason = "the content of \(file.path) is not a JSON object"
            #expect(reasons.withLock { $0 } == [reason, reason])
        }
    }

    @Test(
        "a client is not created if the file is missing or is not a JSON object", arguments: [nil, "", "[]", "{\"a\":"])
    func notCreated(text: String?) throws {
        try withTemporaryDirectory { directory in
            let path = directory + "/config.json"
            if let text { try Data(text.utf8).write(to: URL(filePath: path)) }
            let error = #expect(throws: LarderClientError.self) { try LarderClient(contentsOf: path) }
            #expect(error?.code == .invalidArgument && error?.reason.contains(path) == true)
        }
    }
}
