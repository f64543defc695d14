import Glibc
import LarderClient
import LarderJSON
import LarderTesting
import Synchronization
import TestSupport
import Testing

@Suite("Reading and writing of repositories", .timeLimit(.minutes(15)))
struct RepositoryReadTests {
    private struct Note: Codable, Identifiable, Equatable, Sendable {
        var id: String
        var text: String
    }

    private func notes(_ client: LarderClient, currentDirectory: String? = nil) -> LarderRepository<Note> {
        LarderRepository(client.config, at: "notes", of: Note.self, currentDirectory: currentDirectory)
    }

    private func failure(_ body: () async throws(LarderClientError) -> Void) async -> LarderClientError? {
        do throws(LarderClientError) {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    // MARK: Reading

    @Test(
        "without an agent, a repository reads the exported file and cannot save",
        arguments: [.networkFirst, .cacheFirst, .cacheOnly, .maximumAge(.seconds(1))] as [RepositoryReadPolicy])
    func exportedFile(policy: RepositoryReadPolicy) async throws {
        try await withTemporaryDirectory { directory in
            let file = try #require(fopen(directory + "/default.json", "w"))
            #expect(fputs(#"{"notes":{"1":{"id":"1","text":"one"}}}"#, file) >= 0)
            fclose(file)
            let client = LarderClient(socket: directory + "/none.sock")
            let notes = notes(client, currentDirectory: directory)
            for _ in 0..<2 {
                #expect(try await notes.all(policy: policy) == [Note(id: "1", text: "one")])
                #expect(try await notes.load("1", policy: policy)?.text == "one")
                #expect(try await notes.load("2", policy: policy) == nil)
            }
            let error = await failure { () async throws(LarderClientError) in
                try await notes.save(Note(id: "1", text: "new"))
            }
            #expect(error?.code == .unreachable)
            #expect(try await notes.load("1", policy: policy)?.text == "one")
        }
    }

    @Test("without an agent and an exported file, a read fails, and `cacheOnly` says why")
    func noCopy() async throws {
        try await withTemporaryDirectory { directory in
            let notes = notes(LarderClient(socket: directory + "/none.sock"), currentDirectory: directory)
            let network = await failure { () async throws(LarderClientError) in _ = try await notes.all() }
            #expect(network?.code == .unreachable && network?.systemError == ENOENT)
            let cache = await failure { () async throws(LarderClientError) in
                _ = try await notes.all(policy: .cacheOnly)
            }
            #expect(cache?.code == .unreachable && cache?.advice?.contains("current.enabled") == true)
        }
    }

    @Test("without an agent, a stream begins with the exported file; then it continues with other values of the agent")
    func streamOfCopy() async throws {
        try await withTemporaryDirectory { directory in
            let file = try #require(fopen(directory + "/default.json", "w"))
            #expect(fputs(#"{"notes":{"1":{"id":"1","text":"one"}}}"#, file) >= 0)
            fclose(file)
            let agent = try await TestAgent()
            try await agent.client().config.set(["id": "1", "text": "two"], at: "notes.1")
            agent.faults.isUnreachable = true
            let interruptions = Mutex(0)
            let notes = notes(agent.client(), currentDirectory: directory)
            let changes = notes.contentChanges.onInterruption { _ in interruptions.withLock { $0 += 1 } }
            let (received, continuation) = AsyncStream.makeStream(of: [Note].self)
            let following = Task { for try await contents in changes { continuation.yield(contents.models) } }
            defer { following.cancel() }
            var values = received.makeAsyncIterator()
            #expect(await values.next() == [Note(id: "1", text: "one")])
            #expect(interruptions.withLock { $0 } == 1)
            var single = notes.changes(of: "2").makeAsyncIterator()
            #expect(try await single.next() == .some(nil))

            agent.faults.isUnreachable = false
            try await agent.clock.waitForSleepers()
            agent.clock.advance(by: .seconds(10))
            #expect(await values.next() == [Note(id: "1", text: "two")])
        }
    }

    @Test("a record that cannot be decoded is replaced as a whole by a save, once it was read")
    func undecodableRecord() async throws {
        let client = try await TestAgent().client()
        try await client.config.set(["id": "1", "txt": "mistyped"], at: "notes.1")
        let notes = notes(client)
        let unread = await failure { () async throws(LarderClientError) in
            try await self.notes(client).save(Note(id: "1", text: "new"))
        }
        #expect(unread?.remoteError?.code == .conflict)
        #expect(try await notes.contents().failures.map(\.name) == ["1"])
        try await notes.save(Note(id: "1", text: "new"))
        #expect(try await client.config.snapshot(at: "notes.1").value == ["id": "1", "text": "new"])
    }

    @Test("a policy that accepts an older copy sends no request after a change")
    func policies() async throws {
        let agent = try await TestAgent()
        let notes = notes(agent.client())
        #expect(try await notes.all(policy: .cacheFirst).isEmpty, "the first copy is requested")
        let others = self.notes(agent.client())
        #expect(try await others.all().isEmpty)
        try await others.save(Note(id: "1", text: "one"))
        #expect(try await notes.all(policy: .cacheFirst).isEmpty)
        #expect(try await notes.all(policy: .cacheOnly).isEmpty)
        #expect(try await notes.all(policy: .maximumAge(.seconds(100_000))).isEmpty)
        #expect(try await self.notes(agent.client()).all(policy: .maximumAge(.zero)).count == 1)
        #expect(try await others.all(policy: .cacheOnly) == [Note(id: "1", text: "one")], "its own write is known")
    }

    @Test("a maximum age counts on the clock of the client, from when the copy was last known to be current")
    func maximumAge() async throws {
        let agent = try await TestAgent()
        let notes = notes(agent.client())
        #expect(try await notes.all().isEmpty)
        try await self.notes(agent.client()).save(Note(id: "1", text: "one"), ifUnchanged: false)
        // The copy is no longer current once its connection has ended.
        await agent.disconnect()
        agent.clock.advance(by: .seconds(10))
        #expect(try await notes.all(policy: .maximumAge(.seconds(10))).isEmpty)
        agent.clock.advance(by: .seconds(1))
        #expect(try await notes.all(policy: .maximumAge(.seconds(10))).count == 1)
    }

    @Test("values that are not models are skipped and reported, and `all` throws the first error")
    func invalidModels() async throws {
        let agent = try await TestAgent()
        let client = agent.client()
        try await client.config.set(
            [
                "1": ["id": "1", "text": "one"], "2": ["id": "2"], "3": ["id": "3", "text": "three"],
                "4": ["id": "5", "text": "other name"],
            ], at: "notes")
        let notes = notes(client)
        let contents = try await notes.contents()
        #expect(contents.models.map(\.id) == ["1", "3"])
        #expect(contents.failures.map(\.name) == ["2", "4"])
        #expect(contents.failures.allSatisfy { $0.error.code == .decodingFailed })
        let error = await failure { () async throws(LarderClientError) in _ = try await notes.all() }
        #expect(error == contents.failures.first?.error)
        #expect(try await notes.load("3")?.text == "three")

        var changes = notes.contentChanges.makeAsyncIterator()
        #expect(try await changes.next()?.failures.map(\.name) == ["2", "4"])
        try await client.config.set("two", at: "notes.2.text")
        let next = try await changes.next()
        #expect(next?.models.map(\.id) == ["1", "2", "3"] && next?.failures.map(\.name) == ["4"])
    }

    @Test("a stream of one model delivers its values, and nothing when another model changes")
    func oneModel() async throws {
        let agent = try await TestAgent()
        let notes = notes(agent.client())
        var changes = notes.changes(of: "a.b/c").makeAsyncIterator()
        #expect(try await changes.next() == .some(nil))
        try await notes.save(Note(id: "a.b/c", text: "one"))
        #expect(try await changes.next() == Note(id: "a.b/c", text: "one"))
        try await notes.save(Note(id: "other", text: "one"))
        try await notes.save(Note(id: "a.b/c", text: "two"))
        #expect(try await changes.next() == Note(id: "a.b/c", text: "two"))
        try await notes.delete("a.b/c")
        #expect(try await changes.next() == .some(nil))
    }

    @Test("a stream reports its interruptions and resumptions, or ends with a refusal")
    func handlers() async throws {
        let agent = try await TestAgent()
        let client = agent.client()
        let unknown = LarderRepository(client.config["unknown"], at: "notes", of: Note.self)
        let refusal = await failure { () async throws(LarderClientError) in
            var refused = unknown.changes.failOnRefusal().makeAsyncIterator()
            _ = try await refused.next()
        }
        #expect(refusal?.remoteError?.code == .unknownNamespace)

        let events = Mutex<[String]>([])
        let changes = notes(client).changes(of: "1")
            .onInterruption { _ in events.withLock { $0.append("interrupted") } }
            .onResumption { events.withLock { $0.append("resumed") } }
        let (received, continuation) = AsyncStream.makeStream(of: Note?.self)
        let following = Task { for try await note in changes { continuation.yield(note) } }
        defer { following.cancel() }
        var values = received.makeAsyncIterator()
        #expect(await values.next() == .some(nil))
        #expect(events.withLock { $0 }.isEmpty)
        await agent.disconnect()
        try await agent.clock.waitForSleepers()
        #expect(events.withLock { $0 } == ["interrupted"])
        agent.clock.advance(by: .seconds(1))
        try await client.config.set(["id": "1", "text": "one"], at: "notes.1")
        #expect(await values.next() == Note(id: "1", text: "one"))
        #expect(events.withLock { $0 } == ["interrupted", "resumed"])
    }

    /// Whether each decoding of an ``Observed`` ran on the main actor.
    private static let decodings = Mutex<[Bool]>([])

    private struct Observed: Codable, Identifiable, Sendable {
        var id: String

        init(id: String) { self.id = id }

        init(from decoder: any Decoder) throws {
            decodings.withLock { $0.append(MainQueue.isCurrent) }
            id = try decoder.container(keyedBy: CodingKeys.self).decode(String.self, forKey: .id)
        }
    }

    @Test("a collection is not decoded on the main actor")
    @MainActor func mainActor() async throws {
        MainQueue.mark()
        #expect(MainQueue.isCurrent)
        let agent = try await TestAgent()
        let repository = LarderRepository(agent.client().config, at: "observed", of: Observed.self)
        try await repository.importAll((0..<100).map { Observed(id: "\($0)") })
        #expect(try await repository.all().count == 100)
        var changes = repository.changes.makeAsyncIterator()
        #expect(try await changes.next()?.count == 100)
        let decodings = Self.decodings.withLock { $0 }
        #expect(decodings.count >= 200 && !decodings.contains(true))
    }

    /// Whether each encoding and decoding of a ``Page`` ran on the main actor.
    private static let codings = Mutex<[Bool]>([])

    private struct Page: Codable, Identifiable, Sendable {
        var id: String
        var text: String

        init(_ text: String) { (id, self.text) = ("1", text) }

        init(from decoder: any Decoder) throws {
            codings.withLock { $0.append(MainQueue.isCurrent) }
            let container = try decoder.container(keyedBy: CodingKeys.self)
            id = try container.decode(String.self, forKey: .id)
            text = try container.decode(String.self, forKey: .text)
        }

        func encode(to encoder: any Encoder) throws {
            codings.withLock { $0.append(MainQueue.isCurrent) }
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(id, forKey: .id)
            try container.encode(text, forKey: .text)
        }

        private enum CodingKeys: CodingKey {
            case id, text
        }
    }

    @Test("a large model is neither encoded nor decoded on the main actor")
    @MainActor func largeModel() async throws {
        MainQueue.mark()
        #expect(MainQueue.isCurrent)
        let agent = try await TestAgent()
        let pages = LarderRepository(agent.client().config, at: "pages", of: Page.self)
        for letter in ["a", "b"] { try await pages.save(Page(String(repeating: letter, count: 10_000))) }
        #expect(try await pages.load("1")?.text.first == "b")
        let codings = Self.codings.withLock { $0 }
        #expect(codings.count >= 4 && !codings.contains(true))
    }

    // MARK: Writing

    @Test("a save that need not find the model unchanged replaces what another client has saved")
    func overwriting() async throws {
        let agent = try await TestAgent()
        let (notes, others) = (notes(agent.client()), notes(agent.client()))
        try await notes.save(Note(id: "1", text: "one"))
        let refused = await failure { () async throws(LarderClientError) in
            try await others.save(Note(id: "1", text: "mine"))
        }
        #expect(refused?.remoteError?.code == .conflict)
        try await notes.save(Note(id: "1", text: "two"))
        try await others.save(Note(id: "1", text: "mine"), ifUnchanged: false)
        #expect(try await self.notes(agent.client()).load("1")?.text == "mine")
    }

    @Test("many models are deleted together, also if one of them conflicts")
    func deleteAll() async throws {
        let agent = try await TestAgent()
        let notes = notes(agent.client())
        try await notes.importAll((0..<50).map { Note(id: "\($0)", text: "text") })
        try await self.notes(agent.client()).save(Note(id: "7", text: "theirs"), ifUnchanged: false)
        let error = await failure { () async throws(LarderClientError) in
            try await notes.deleteAll((0..<40).map(String.init) + ["unknown"])
        }
        #expect(error?.remoteError?.code == .conflict)
        let left = try await self.notes(agent.client()).all()
        #expect(Set(left.map(\.id)) == Set((40..<50).map(String.init) + ["7"]))
    }

    @Test("replacing all models keeps those that are equal, and deletes the others")
    func replaceAll() async throws {
        let agent = try await TestAgent()
        let notes = notes(agent.client())
        try await notes.importAll((0..<20).map { Note(id: "\($0)", text: "text") })
        try await notes.replaceAll(with: [
            Note(id: "3", text: "text"), Note(id: "5", text: "new"), Note(id: "x", text: ""),
        ])
        let others = self.notes(agent.client())
        #expect(try await Set(others.all().map(\.id)) == ["3", "5", "x"])
        #expect(try await others.load("5")?.text == "new")
        try await others.replaceAll(with: [])
        #expect(try await self.notes(agent.client()).all().isEmpty)
    }

    @Test("an import of several chunks removes members that the models do not have")
    func exactImport() async throws {
        let agent = try await TestAgent(["notes": ["2": ["id": "2", "text": "low", "extra": 1]]])
        let client = agent.client()
        let notes = notes(client)
        try await notes.delete("2")
        let imported = (0..<6).map { Note(id: "\($0)", text: "text") }
        try await client.config.set(["id": "4", "text": "theirs", "extra": 2], at: "notes.4")
        try await notes.importAll(imported, chunkSize: 1)
        let others = self.notes(agent.client())
        #expect(try await others.all().sorted { $0.id < $1.id } == imported)
        let value = try await client.config.snapshot(at: "notes").value
        #expect(value?["2"]?.count == 2 && value?["4"]?.count == 2, "members that the type does not have are removed")
    }
}
