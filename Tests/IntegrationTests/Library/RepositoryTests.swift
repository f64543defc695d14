import LarderClient
import LarderJSON
import Testing

/// A model of the tests of repositories.
struct Ticket: Codable, Identifiable, Equatable, Sendable {
    var id: String
    var title: String
    var note: String?
}

extension Integration {
    @Suite("Repositories", .timeLimit(.minutes(30)))
    struct RepositoryTests {
        private func repository(_ client: LarderClient) -> LarderRepository<Ticket> {
            LarderRepository(client.config, at: "tickets", of: Ticket.self)
        }

        private func code(_ body: () async throws -> Void) async -> RemoteError.Code? {
            do {
                try await body()
                return nil
            } catch {
                return (error as? LarderClientError)?.remoteError?.code
            }
        }

        @Test("saved models are loaded, changed and deleted, also by another client")
        func lifeCycle() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let tickets = repository(LarderClient(socket: home.socket))
                #expect(try await tickets.all() == [])
                #expect(try await tickets.load("1") == nil)
                try await tickets.save(Ticket(id: "1", title: "one", note: "n"))
                try await tickets.save(Ticket(id: "2", title: "two"))
                #expect(try await tickets.load("1") == Ticket(id: "1", title: "one", note: "n"))
                try await tickets.save(Ticket(id: "1", title: "changed"))
                #expect(try await tickets.load("1") == Ticket(id: "1", title: "changed"))

                let others = repository(LarderClient(socket: home.socket))
                let expected = [Ticket(id: "1", title: "changed"), Ticket(id: "2", title: "two")]
                #expect(try await others.all() == expected)
                #expect(try await tickets.all() == expected)
                try await others.delete("2")
                try await others.delete("3")
                #expect(try await others.load("2") == nil)
                #expect(try await others.all().map(\.id) == ["1"])
            }
        }

        @Test("saving an unchanged model publishes nothing")
        func unchanged() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let client = LarderClient(socket: home.socket)
                let tickets = repository(client)
                try await tickets.save(Ticket(id: "1", title: "one"))
                let revision = try await client.config.snapshot().revision
                try await tickets.save(Ticket(id: "1", title: "one"))
                #expect(try await client.config.snapshot().revision == revision)
            }
        }

        @Test("ids may have any characters and may be empty")
        func specialIDs() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let ids = [
                    "", "a/b", "~", "~1", "a.b", " ", "7", "\"", "\n", "\u{E9}", "e\u{301}", "日本", "tickets", "/", ".",
                ]
                let tickets = repository(LarderClient(socket: home.socket))
                for id in ids { try await tickets.save(Ticket(id: id, title: "title of \(id)")) }
                let others = repository(LarderClient(socket: home.socket))
                for id in ids {
                    let loaded = try await others.load(id)
                    #expect(loaded.map { Array($0.id.utf8) } == Array(id.utf8), "\(id)")
                    #expect(loaded?.title == "title of \(id)")
                }
                #expect(try await Set(others.all().map { Array($0.id.utf8) }) == Set(ids.map { Array($0.utf8) }))
                for id in ids { try await others.delete(id) }
                #expect(try await others.all() == [])
            }
        }

        @Test(
            "a save conflicts if another repository has changed the model, and succeeds after the model is loaded again"
        )
        func conflict() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let tickets = repository(LarderClient(socket: home.socket))
                try await tickets.save(Ticket(id: "1", title: "one"))
                let others = repository(LarderClient(socket: home.socket))
                var other = try #require(try await others.load("1"))
                other.note = "theirs"
                try await others.save(other)

                #expect(await code { try await tickets.save(Ticket(id: "1", title: "mine")) } == .conflict)
                var ticket = try #require(try await tickets.load("1"))
                #expect(ticket.note == "theirs")
                ticket.title = "mine"
                try await tickets.save(ticket)
                #expect(await code { try await others.delete("1") } == .conflict)
                #expect(try await others.load("1") == Ticket(id: "1", title: "mine", note: "theirs"))
                try await others.delete("1")

                let third = repository(LarderClient(socket: home.socket))
                try await others.save(Ticket(id: "2", title: "two"))
                #expect(await code { try await third.save(Ticket(id: "2", title: "unseen")) } == .conflict)
            }
        }

        @Test("concurrent saves share requests, and only the one with a conflict fails")
        func batches() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let client = LarderClient(socket: home.socket)
                try await client.config.set(["id": "50", "title": "theirs"], at: "tickets.50")
                let tickets = repository(client)
                let failed = await withTaskGroup(of: String?.self) { group in
                    for number in 0..<200 {
                        group.addTask {
                            do throws(LarderClientError) {
                                try await tickets.save(Ticket(id: "\(number)", title: "title"))
                                return nil
                            } catch {
                                return error.remoteError?.code == .conflict ? "\(number)" : "\(error)"
                            }
                        }
                    }
                    return await group.reduce(into: [String]()) { if let id = $1 { $0.append(id) } }
                }
                #expect(failed == ["50"])
                let all = try await tickets.all()
                #expect(all.count == 200)

                let first = try await client.config.snapshot().revision
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for ticket in all {
                        group.addTask { try await tickets.save(Ticket(id: ticket.id, title: "new")) }
                    }
                    try await group.waitForAll()
                }
                let second = try await client.config.snapshot().revision
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for ticket in all { group.addTask { try await tickets.delete(ticket.id) } }
                    try await group.waitForAll()
                }
                let third = try await client.config.snapshot().revision
                #expect(try await tickets.all() == [])
                // A repository has one request in flight, so each request has its own revision.
                #expect(second - first < 200 && third - second < 200, "\(first) \(second) \(third)")
            }
        }

        @Test("a save whose task is cancelled before the request is not sent")
        func cancelledSave() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let tickets = repository(LarderClient(socket: home.socket))
                let saving = Task { () -> LarderClientError.Code? in
                    withUnsafeCurrentTask { $0?.cancel() }
                    do throws(LarderClientError) {
                        try await tickets.save(Ticket(id: "1", title: "one"))
                        return nil
                    } catch {
                        return error.code
                    }
                }
                #expect(await saving.value == .cancelled)
                #expect(try await tickets.all() == [])
                try await tickets.save(Ticket(id: "1", title: "one"))
                #expect(try await tickets.all().count == 1)
            }
        }

        @Test("members that became nil vanish, and deleted models stay deleted, although a lower layer provides them")
        func lowerLayers() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let client = LarderClient(socket: home.socket)
                let low: JSONValue = ["id": "1", "title": "low", "note": "low", "unknown": true]
                try await client.config.push(["tickets": ["1": low, "2": ["id": "2", "title": "low"]]])
                let tickets = repository(client)
                var ticket = try #require(try await tickets.load("1"))
                #expect(ticket.note == "low")
                ticket.note = nil
                try await tickets.save(ticket)
                let saved = try await client.config.snapshot(at: "tickets.1").value
                #expect(saved == ["id": "1", "title": "low", "unknown": true])

                try await tickets.delete("1")
                try await tickets.delete("2")
                #expect(try await tickets.all() == [])
                #expect(try await client.config.snapshot(at: "tickets").value == .emptyObject)

                try await tickets.save(Ticket(id: "1", title: "new"))
                #expect(try await client.config.snapshot(at: "tickets.1").value == ["id": "1", "title": "new"])
            }
        }

        @Test("a model that an override of the whole collection provides can be deleted")
        func overriddenCollection() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let client = LarderClient(socket: home.socket)
                try await client.config.set(["1": ["id": "1", "title": "one"]], at: "tickets")
                let tickets = repository(client)
                try await tickets.delete("1")
                #expect(try await tickets.load("1") == nil)
                #expect(try await client.config.snapshot(at: "tickets").value == .emptyObject)
            }
        }

        @Test("a value that is not a model fails to load, and the error of `all` names its path")
        func undecodable() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let client = LarderClient(socket: home.socket)
                try await client.config.set(
                    [
                        "good": ["id": "good", "title": "t"], "bad": ["id": "bad"],
                        "name": ["id": "other", "title": "t"],
                    ],
                    at: "tickets")
                let tickets = repository(client)
                #expect(try await tickets.load("good")?.title == "t")
                for id in ["bad", "name"] {
                    let error = await #expect(throws: LarderClientError.self) { try await tickets.load(id) }
                    #expect(error?.code == .decodingFailed && error?.reason.contains("tickets.\(id)") == true)
                }
                let error = await #expect(throws: LarderClientError.self) { try await tickets.all() }
                #expect(error?.code == .decodingFailed && error?.reason.contains("tickets.bad") == true)
                try await client.config.set(5, at: "tickets")
                let fresh = repository(LarderClient(socket: home.socket))
                let scalar = await #expect(throws: LarderClientError.self) { try await fresh.all() }
                #expect(scalar?.reason.contains("a number, not an object") == true)
            }
        }

        @Test("after the agent was killed, a repository reads its last copy with its own writes")
        func offline() async throws {
            try await AgentHome.with { (home) async throws in
                let agent = try home.start()
                let client = LarderClient(socket: home.socket)
                try await client.config.set(["1": ["id": "1", "title": "one"]], at: "tickets")
                let tickets = repository(client)
                #expect(try await tickets.all().count == 1)
                try await tickets.save(Ticket(id: "2", title: "two"))
                agent.kill()
                #expect(try await tickets.all().map(\.id) == ["1", "2"])
                #expect(try await tickets.load("2")?.title == "two")
                #expect(try await tickets.load("3") == nil)
                let fresh = LarderRepository(
                    LarderClient(socket: home.socket).config, at: "tickets", of: Ticket.self,
                    currentDirectory: "/nonexistent")
                let error = await #expect(throws: LarderClientError.self) { try await fresh.all() }
                #expect(error?.code == .unreachable)
            }
        }

        @Test(
            "`changes` delivers the current models, then each different collection, also after a restart of the agent")
        func changes() async throws {
            try await AgentHome.with { (home) async throws in
                let agent = try home.start()
                let writer = LarderClient(socket: home.socket)
                let tickets = repository(writer)
                let stream = repository(LarderClient(socket: home.socket)).changes
                var iterator = stream.makeAsyncIterator()
                #expect(try await iterator.next() == [])
                try await tickets.save(Ticket(id: "2", title: "two"))
                #expect(try await iterator.next()?.map(\.id) == ["2"])
                try await writer.config.set(5, at: "other")
                try await tickets.save(Ticket(id: "1", title: "one"))
                #expect(try await iterator.next()?.map(\.id) == ["2", "1"])

                agent.kill()
                _ = try home.start()
                let others = repository(LarderClient(socket: home.socket))
                try await others.delete("2")
                #expect(try await iterator.next()?.map(\.id) == ["1"])
            }
        }
    }
}
