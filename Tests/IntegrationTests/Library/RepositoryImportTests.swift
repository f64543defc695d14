import LarderClient
import LarderJSON
import Testing

extension Integration {
    @Suite("Imports into repositories", .timeLimit(.minutes(30)))
    struct RepositoryImportTests {
        private struct Item: Codable, Identifiable, Equatable, Sendable {
            var id: Int
            var name: String
            var price: Double?
        }

        private static let items = (0..<2500).map { Item(id: $0, name: "item \($0)", price: 0.5) }

        /// Returns the error with which an import ends; nil if it succeeds.
        private func failure(_ body: () async throws(LarderClientError) -> Void) async -> LarderClientError? {
            do throws(LarderClientError) {
                try await body()
                return nil
            } catch {
                return error
            }
        }

        @Test("2,500 models are imported in three changes with progress, and a second import publishes nothing")
        func chunks() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let client = LarderClient(socket: home.socket)
                let repository = LarderRepository(client.config, at: "items", of: Item.self)
                let before = try await client.config.snapshot().revision
                var progress: [[Int?]] = []
                try await repository.importAll(Self.items) { progress.append([$0, $1]) }
                #expect(progress == [[1000, 2500], [2000, 2500], [2500, 2500]])
                let after = try await client.config.snapshot().revision
                #expect(after == before + 3)
                #expect(try await repository.all() == Self.items)

                let again = LarderRepository(LarderClient(socket: home.socket).config, at: "items", of: Item.self)
                try await again.importAll(Self.items)
                #expect(try await client.config.snapshot().revision == after)

                var changed = Self.items
                changed[7].price = nil
                changed[2400].name = "changed"
                try await again.importAll(changed)
                #expect(try await client.config.snapshot().revision == after + 2)
                #expect(try await again.all() == changed)
            }
        }

        @Test("a cancelled import stops after the chunk, and the error has the number of saved models")
        func cancellation() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let client = LarderClient(socket: home.socket)
                let repository = LarderRepository(client.config, at: "items", of: Item.self)
                let importing = Task { () -> (error: LarderClientError?, progress: [[Int?]], count: Int) in
                    var progress: [[Int?]] = []
                    var count = 0
                    let items = AnySequence { () -> AnyIterator<Item> in
                        var iterator = Self.items.makeIterator()
                        return AnyIterator {
                            count += 1
                            return iterator.next()
                        }
                    }
                    let error = await failure { () async throws(LarderClientError) in
                        try await repository.importAll(items, chunkSize: 100) { saved, total in
                            progress.append([saved, total])
                            if saved == 200 { withUnsafeCurrentTask { $0?.cancel() } }
                        }
                    }
                    return (error, progress, count)
                }
                let (error, progress, count) = await importing.value
                #expect(error?.code == .cancelled && error?.savedCount == 200)
                #expect(error?.reason.contains("200 models") == true, "\(error?.reason ?? "")")
                #expect(progress == [[100, nil], [200, nil]])
                #expect(count == 300, "the sequence is consumed one chunk at a time")
                #expect(try await repository.all().count == 200)
                try await repository.importAll(Self.items)
                #expect(try await repository.all().count == 2500)
            }
        }

        @Test("a failed import has the number of saved models, and an invalid chunk size is refused")
        func failures() async throws {
            try await AgentHome.with { (home) async throws in
                let agent = try home.start()
                let client = LarderClient(socket: home.socket)
                let repository = LarderRepository(client.config, at: "items", of: Item.self)
                let error = await failure { () async throws(LarderClientError) in
                    try await repository.importAll(Self.items) { saved, _ in if saved == 1000 { agent.kill() } }
                }
                #expect(error?.savedCount == 1000 && error?.isRetryable == true, "\(error?.reason ?? "")")
                #expect(try await repository.all() == Array(Self.items[..<1000]))
                for size in [0, 1001] {
                    let error = await failure { () async throws(LarderClientError) in
                        try await repository.importAll(Self.items, chunkSize: size)
                    }
                    #expect(error?.code == .invalidArgument)
                }
            }
        }

        @Test("an import overwrites changed models and hides values of lower layers that the models do not have")
        func overwriting() async throws {
            try await AgentHome.with(starting: true) { (home) async throws in
                let client = LarderClient(socket: home.socket)
                try await client.config.push([
                    "items": ["1": ["id": 1, "name": "low", "price": 5], "2": ["id": 2, "name": "low", "price": 5]]
                ])
                let repository = LarderRepository(client.config, at: "items", of: Item.self)
                try await repository.delete(1)
                try await client.config.set("theirs", at: "items.2.name")
                let items = [Item(id: 1, name: "one"), Item(id: 2, name: "two"), Item(id: 2, name: "last")]
                try await repository.importAll(items)
                let expected: JSONValue = ["1": ["id": 1, "name": "one"], "2": ["id": 2, "name": "last"]]
                #expect(try await client.config.snapshot(at: "items").value == expected)
                let revision = try await client.config.snapshot().revision
                try await repository.importAll(items)
                #expect(try await client.config.snapshot().revision == revision)
            }
        }
    }
}
