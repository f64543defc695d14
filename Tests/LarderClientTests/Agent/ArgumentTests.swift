import FoundationEssentials
import LarderClient
import LarderTesting
import Testing

@Suite("Arguments and values of calls", .timeLimit(.minutes(15)))
struct ArgumentTests {
    private static let malformed = ["a..b", ".a", "a.", "/a~2", "/~"]

    private func code(_ body: () async throws -> Void) async -> LarderClientError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? LarderClientError)?.code
        }
    }

    @Test("a malformed path throws `invalidArgument` in every call", arguments: malformed)
    func malformedPath(path: String) async throws {
        let client = try await TestAgent(["a": 1]).client()
        let config = client.config
        let calls: [(String, () async throws -> Void)] = [
            ("snapshot", { _ = try await config.snapshot(at: path) }),
            ("snapshots", { for try await _ in config.snapshots(at: path) { break } }),
            ("value", { _ = try await config.value(at: path, default: 1) }),
            ("set", { _ = try await config.set(1, at: path) }),
            ("set(encoding:)", { _ = try await config.set(encoding: 1, at: path) }),
            ("unset", { _ = try await config.unset(at: path) }),
            ("update", { _ = try await config.update(at: path, as: Int.self, default: 1) { $0 += 1 } }),
            ("wait", { _ = try await config.wait(for: .exists(true), at: path) }),
            ("apply", { _ = try await config.apply { $0.set(1, at: path) } }),
            ("increment", { _ = try await config.increment(at: path) }),
            ("explain", { _ = try await config.explain(at: path) }),
            ("diff", { _ = try await config.diff(from: 1, at: path) }),
        ]
        for (name, call) in calls { #expect(await code(call) == .invalidArgument, "\(name)") }
    }

    @Test("a malformed path throws `invalidArgument` in every lookup in a mapped snapshot", arguments: malformed)
    func malformedLookup(path: String) async throws {
        let client = try await TestAgent(["a": 1]).client()
        let snapshot = try await client.config.mappedSnapshot()
        let lookups: [(String, () throws -> Void)] = [
            ("int", { _ = try snapshot.int(at: path) }), ("double", { _ = try snapshot.double(at: path) }),
            ("bool", { _ = try snapshot.bool(at: path) }), ("string", { _ = try snapshot.string(at: path) }),
            ("isString", { _ = try snapshot.isString("", at: path) }),
            ("withText", { _ = try snapshot.withText(at: path) { _ in Issue.record("called") } }),
            ("value", { _ = try snapshot.value(at: path) }),
        ]
        for (name, lookup) in lookups { #expect(await code(lookup) == .invalidArgument, "\(name)") }
        #expect(try snapshot.int(at: "b") == nil && snapshot.withText(at: "b") { $0 == nil })
    }

    @Test("the error of decoding a snapshot names its path, which does not count when snapshots are compared")
    func pathOfSnapshot() async throws {
        let config = try await TestAgent(["search": ["limit": "x"]]).client().config
        var iterator = config.snapshots(at: "search.limit").makeAsyncIterator()
        let streamed = try #require(try await iterator.next())
        let read = try await config.snapshot(at: "search.limit")
        for snapshot in [streamed, read] {
            let error = #expect(throws: LarderClientError.self) { try snapshot.decode(Int.self) }
            #expect(
                error?.reason
                    == #"cannot decode the value at "search.limit" in namespace "default" as Int: it is a string"#)
        }
        let own = LarderSnapshot(value: "x", revision: read.revision, epoch: read.epoch, state: read.state)
        #expect(own == read)
    }

    @Test("an argument that no agent accepts is an error of the client, in its own words")
    func refusedArguments() async throws {
        let config = try await TestAgent(["a": 1]).client().config
        let calls: [(String, () async throws -> Void)] = [
            ("ttl", { _ = try await config.set(1, at: "a", ttl: .zero) }),
            ("ttl of apply", { _ = try await config.apply { $0.set(1, at: "a", ttl: .seconds(-1)) } }),
            ("ttl of replaceAll", { _ = try await config.replaceAll(with: [:], ttl: .seconds(-1)) }),
            ("document", { _ = try await config.replaceAll(with: 1) }),
            ("root", { _ = try await config.set(1, at: "") }),
            ("root of apply", { _ = try await config.apply { $0.set(1, at: "") } }),
            ("unset of the root", { _ = try await config.unset(at: "") }),
            (
                "reason of apply",
                {
                    let reason = String(repeating: "\u{E9}", count: 1025)
                    _ = try await config.apply(reason: reason) { $0.set(2, at: "a") }
                }
            ),
            (
                "reason of increment",
                { _ = try await config.increment(at: "a", reason: String(repeating: "x", count: 1025)) }
            ),
            ("infinity", { _ = try await config.set(.double(.infinity), at: "a") }),
            ("NaN", { _ = try await config.apply { $0.set(.double(.nan), at: "a") } }),
        ]
        for (name, call) in calls { #expect(await code(call) == .invalidArgument, "\(name)") }
        #expect(try await config.value(at: "a", as: Int.self) == 1)
        try await config.set(.null, at: "a")
        #expect(try await config.value(at: "a", as: Int?.self) == nil)
    }

    @Test("a list of changes encodes values, and an error of the encoding adds no change")
    func encodedChanges() async throws {
        let config = try await TestAgent(["a": 1]).client().config
        var changes = ConfigChangeList()
        try changes.set(encoding: ["x": 1], at: "b", ifValue: .absent)
        #expect(throws: LarderClientError.self) { try changes.set(encoding: Double.nan, at: "c") }
        #expect(changes.changes.map(\.path) == ["b"])
        try await config.apply(changes, ifRevision: .any, reason: nil, dryRun: false)
        #expect(try await config.snapshot().value == ["a": 1, "b": ["x": 1]])
    }

    @Test("both conditions of a change have the form of a value, and a snapshot is a condition for its revision")
    func conditions() async throws {
        let client = try await TestAgent().client()
        let first = try await client.config.set(1, at: "a")
        let snapshot = try await client.config.snapshot(at: "a")
        #expect(RevisionCondition.equals(snapshot) == .equals(first.revision, epoch: first.epoch))
        let second = try await client.config.apply(ifRevision: .equals(snapshot)) {
            $0.set(2, at: "a", ifValue: .equals(1))
        }
        #expect(second?.revision == first.revision + 1 && second?.hasEffect == true)
        let error = await #expect(throws: LarderClientError.self) {
            try await client.config.apply(ifRevision: .equals(snapshot)) { $0.set(3, at: "a") }
        }
        #expect(error?.remoteError?.code == .conflict)
        #expect(error?.remoteError?.conflict?.revision == second?.revision)
        #expect(try await client.config.apply(ifRevision: .any) { $0.set(3, at: "a") }?.hasEffect == true)
    }

    private struct Item: Codable, Identifiable, Equatable {
        var id: String
    }

    @Test("calls, mapped snapshots, repositories and view models of a handle use its namespace")
    func namespaces() async throws {
        let agent = try await TestAgent(namespaces: [
            "default": ["a": 1], "shop": ["a": 2, "items": ["x": ["id": "x"]]],
        ])
        let client = agent.client()
        let shop = client.config["shop"]
        #expect(
            shop.namespace == "shop" && client.config.namespace == "default" && shop["default"].namespace == "default")
        #expect(try await shop.snapshot(at: "a") == shop.wait(for: .equals(2), at: "a"))
        #expect(try await shop.snapshot(at: "a").namespace == "shop")
        #expect(try await shop.value(at: "a", as: Int.self) == 2)
        #expect(try await client.config.value(at: "a", as: Int.self) == 1)
        #expect(try await shop.mappedSnapshot().int(at: "a") == 2)
        #expect(try await client.config.mappedSnapshot().int(at: "a") == 1)
        #expect(try await shop.status().name == "shop")
        #expect(try await client.agent.namespaces().map(\.name) == ["default", "shop"])

        let items = LarderRepository(shop, at: "items", of: Item.self)
        #expect(try await items.all() == [Item(id: "x")])
        try await items.save(Item(id: "y"))
        #expect(try await items.load("y") == Item(id: "y"))
        #expect(try await shop.value(at: "items.y.id", as: String.self) == "y")

        let model = await ConfigViewModel(shop, at: "a", as: Int.self)
        #expect(await model.set(3))
        #expect(await model.value == 3)
        try await shop.set(encoding: 4, at: "b")
        try await shop.update(at: "b", as: Int.self) { $0 += 1 }
        #expect(try await shop.snapshot(at: "b").value == 5)
        var mapped = shop.mappedSnapshots().makeAsyncIterator()
        #expect(try await mapped.next()?.int(at: "b") == 5)
        try await shop.unsetAll()
        #expect(try await shop.value(at: "a", as: Int.self) == 2)
        #expect(try await client.config.snapshot().value == ["a": 1])
    }

    @Test("the time of an override is the time of the agent plus its time to live")
    func time() async throws {
        let agent = try await TestAgent()
        let change = try await agent.client().config.set(1, at: "a", ttl: .milliseconds(1500))
        let expiresAt = try #require(change.expiresAt)
        #expect(expiresAt.since1970 == .milliseconds(agent.clock.millisecondsSince1970 + 1500))
        #expect(LarderTime(since1970: expiresAt.since1970) == expiresAt)
        #expect(LarderTime(since1970: .zero) < expiresAt)
        #expect(LarderTime(since1970: .milliseconds(250)).description == "1970-01-01T00:00:00.250Z")
        #expect(LarderTime(since1970: .milliseconds(250)).date.timeIntervalSince1970 == 0.25)
    }
}
