import Dispatch
import FoundationEssentials
import LarderClient
import LarderEncoding
import LarderProtocol
import LarderTesting
import Observation
import Synchronization
import Testing

@Suite("ConfigViewModel", .timeLimit(.minutes(15)))
@MainActor
struct ConfigViewModelTests {
    private struct Search: Codable, Equatable {
        var limit: Int
    }

    private static func snapshot(
        _ value: JSONValue?, revision: Int, epoch: String = "e"
    ) -> LarderSnapshots.Step {
        .snapshot(LarderSnapshot(value: value, revision: revision, epoch: epoch, state: .fresh))
    }

    private func model(default defaultValue: Search? = nil) -> ConfigViewModel<Search> {
        ConfigViewModel(LarderClient(socket: "/nonexistent").config, at: "search", default: defaultValue)
    }

    /// Follows steps until they end.
    private func follow(_ model: ConfigViewModel<Search>, _ steps: LarderSnapshots.Step...) async {
        await model.follow(
            LarderSnapshots(
                AsyncStream { continuation in
                    for step in steps { continuation.yield(step) }
                    continuation.finish()
                }))
    }

    @Test("a new model has the default value and waits for nothing")
    func initial() {
        #expect(model().value == nil)
        #expect(model(default: Search(limit: 1)).value == Search(limit: 1))
        #expect(!model().isLoading && model().activities.isEmpty && model().lastError == nil)
    }

    @Test("the model has the value of the newest snapshot")
    func newest() async {
        let model = model()
        await follow(
            model, Self.snapshot(["limit": 10], revision: 1), Self.snapshot(["limit": 20], revision: 2))
        #expect(model.value == Search(limit: 20))
        #expect(model.snapshot?.revision == 2)
    }

    @Test("a value that cannot be decoded becomes the last error, and the last good value stays")
    func undecodable() async {
        let model = model()
        await follow(model, Self.snapshot(["limit": 10], revision: 1), Self.snapshot(["limit": "x"], revision: 2))
        #expect(model.value == Search(limit: 10))
        #expect(model.snapshot?.revision == 2)
        #expect(model.lastError?.code == .decodingFailed)
        #expect(model.lastError?.reason.contains(" as Search: \"limit\" is a string, not Int") == true)
        await follow(model, Self.snapshot(.null, revision: 3))
        #expect(model.value == Search(limit: 10))
        await follow(model, Self.snapshot(["limit": 30], revision: 4))
        #expect(model.value == Search(limit: 30))
        #expect(model.lastError == nil)
    }

    @Test("without a value at the path, the model has its default value")
    func absent() async {
        let model = model(default: Search(limit: 1))
        await follow(model, Self.snapshot(["limit": 10], revision: 1), Self.snapshot(nil, revision: 2))
        #expect(model.value == Search(limit: 1))
        #expect(model.lastError == nil)
    }

    @Test("members that a value lacks have the value of the default")
    func absentMembers() async {
        struct Limits: Codable, Equatable {
            var results = 10
            var hosts: [String] = []
        }
        let model = ConfigViewModel(LarderClient(socket: "/nonexistent").config, at: "limits", default: Limits())
        await model.follow(
            LarderSnapshots(
                AsyncStream { continuation in
                    continuation.yield(Self.snapshot(["results": 25], revision: 1))
                    continuation.finish()
                }))
        #expect(model.value == Limits(results: 25) && model.lastError == nil)
    }

    @Test("an older snapshot of the same epoch is ignored, and one of another epoch is not")
    func older() async {
        let model = model()
        await follow(model, Self.snapshot(["limit": 20], revision: 2), Self.snapshot(["limit": 10], revision: 1))
        #expect(model.value == Search(limit: 20))
        await follow(model, Self.snapshot(["limit": 5], revision: 1, epoch: "f"))
        #expect(model.value == Search(limit: 5))
    }

    @Test("the model waits for the first value, and after an interruption for the reconnection")
    func activities() async {
        let model = model()
        let (steps, continuation) = AsyncStream.makeStream(of: LarderSnapshots.Step.self)
        let (seen, interruptions) = AsyncStream.makeStream(of: ConfigInterruption.self)
        let following = Task {
            await model.follow(LarderSnapshots(steps).onInterruption { interruptions.yield($0) })
        }
        await wait { !model.activities.isEmpty }
        #expect(model.activities == [.firstValue])
        continuation.yield(Self.snapshot(["limit": 10], revision: 1))
        await wait { !model.isLoading }
        let broken = LarderClientError(.disconnected, "the agent closed the connection")
        continuation.yield(.interruption(ConfigInterruption(error: broken)))
        for await interruption in seen {
            #expect(interruption.error == broken)
            break
        }
        #expect(model.activities == [.reconnection])
        #expect(model.lastError == broken)
        #expect(model.value == Search(limit: 10))
        continuation.yield(.resumption)
        await wait { !model.isLoading }
        #expect(model.lastError == nil)
        following.cancel()
        await following.value
    }

    @Test("after a reconnection without a newer snapshot, the last error is again that of decoding the value")
    func undecodableAfterReconnection() async {
        let model = model()
        let broken = LarderClientError(.disconnected, "the agent closed the connection")
        await follow(
            model, Self.snapshot(["limit": "x"], revision: 1), .interruption(ConfigInterruption(error: broken)),
            .resumption)
        #expect(model.lastError?.code == .decodingFailed)
        await follow(
            model, Self.snapshot(["limit": 10], revision: 2), .interruption(ConfigInterruption(error: broken)),
            .resumption)
        #expect(model.lastError == nil)
    }

    @Test("a permanent error ends `follow` and remains the last error of the model")
    func fails() async {
        let model = model()
        let error = LarderClientError(remote: WireError(.unknownNamespace, "no such namespace"))
        await follow(model, .failure(error))
        #expect(model.lastError == error)
        #expect(!model.isLoading)
    }

    @Test("a failed call becomes the last error")
    func unreachable() async {
        let model = model(default: Search(limit: 1))
        #expect(await model.set(Search(limit: 2)) == false)
        #expect(model.lastError?.code == .unreachable)
        #expect(await model.refresh() == false)
        #expect(model.value == Search(limit: 1))
        #expect(!model.isLoading)
    }

    @Test("after a successful call, the model has the current value, although it does not follow the agent")
    func calls() async throws {
        let agent = try await TestAgent(["search": ["limit": 10]])
        let model = ConfigViewModel<Search>(agent.client().config, at: "search")
        #expect(await model.set(Search(limit: 20)))
        #expect(model.value == Search(limit: 20) && model.lastError == nil && !model.isLoading)
        try await agent.client().config.set(30, at: "search.limit")
        #expect(await model.set(Search(limit: 40), ttl: .seconds(60)))
        #expect(model.value == Search(limit: 40))
        let revision = try #require(model.snapshot?.revision)
        try await agent.client().config.set("x", at: "search.limit")
        #expect(await model.set(Search(limit: 50)))
        #expect(model.value == Search(limit: 50))
        #expect(try #require(model.snapshot?.revision) > revision)
    }

    private struct Shop: Codable, Equatable {
        var limit = 10
        var hosts: [String] = []
        var owner: String?
    }

    @Test("`set` overrides only the members that differ, so that the others still follow the source")
    func setDifferences() async throws {
        let agent = try await TestAgent(["shop": ["limit": 10, "hosts": ["a"], "owner": "ada", "extra": true]])
        let model = ConfigViewModel<Shop>(agent.client().config, at: "shop")
        #expect(await model.set(Shop(limit: 20, hosts: ["a"], owner: "ada")))
        #expect(model.value == Shop(limit: 20, hosts: ["a"], owner: "ada"))
        try await agent.publish(["shop": ["limit": 11, "hosts": ["b"], "owner": "bob", "extra": false]])
        let followed: JSONValue = ["limit": 20, "hosts": ["b"], "owner": "bob", "extra": false]
        #expect(try await agent.client().config.snapshot(at: "shop").value == followed)
        #expect(await model.set(Shop(limit: 20, hosts: ["b"], owner: nil)))
        #expect(model.value == Shop(limit: 20, hosts: ["b"], owner: nil))
    }

    @Test("`set` without a difference writes nothing")
    func setSame() async throws {
        let agent = try await TestAgent(["shop": ["limit": 25]])
        let model = ConfigViewModel(agent.client().config, at: "shop", default: Shop())
        #expect(await model.set(Shop(limit: 25)))
        let revision = try #require(model.snapshot?.revision)
        #expect(try await agent.client().config.snapshot().revision == revision)
        #expect(try await agent.client().config.explain(at: "shop.limit").winner != "override")
        #expect(model.snapshot?.value == ["limit": 25])
    }

    @Test("`update` changes the value of the agent, not the one that the model has")
    func updates() async throws {
        let agent = try await TestAgent(["shop": ["limit": 10]])
        let model = ConfigViewModel(agent.client().config, at: "shop", default: Shop())
        #expect(await model.set(Shop(limit: 10)))
        try await agent.client().config.set(["a"], at: "shop.hosts")
        #expect(await model.update { $0.hosts.append("b") })
        #expect(model.value == Shop(limit: 10, hosts: ["a", "b"]))
        let missing = ConfigViewModel<Shop>(agent.client().config, at: "nowhere")
        #expect(await missing.update { $0.limit = 1 } == false)
        #expect(missing.lastError?.remoteError?.code == .notFound)
    }

    @Test("`unset` removes the overrides at the path, and all overrides if the path is empty")
    func unsets() async throws {
        let agent = try await TestAgent(["shop": ["limit": 10], "other": 1])
        try await agent.client().config.set(2, at: "other")
        let model = ConfigViewModel(agent.client().config, at: "shop", default: Shop())
        #expect(await model.set(Shop(limit: 20, hosts: ["a"])))
        #expect(await model.unset())
        #expect(model.value == Shop(limit: 10))
        #expect(try await agent.client().config.value(at: "other", as: Int.self) == 2)
        #expect(await ConfigViewModel<JSONValue>(agent.client().config).unset())
        #expect(try await agent.client().config.value(at: "other", as: Int.self) == 1)
    }

    @Test("the overrides of `set` with a time to live expire")
    func expires() async throws {
        let agent = try await TestAgent(["shop": ["limit": 10, "hosts": ["a"]]])
        let model = ConfigViewModel(agent.client().config, at: "shop", default: Shop())
        #expect(await model.set(Shop(limit: 20, hosts: ["a"]), ttl: .seconds(60)))
        #expect(model.value?.limit == 20)
        agent.clock.advance(by: .seconds(60))
        #expect(try await agent.client().config.wait(for: .equals(10), at: "shop.limit").value == 10)
    }

    @Test("`set` and `update` use the encoder of the model")
    func encoder() async throws {
        struct Window: Codable, Equatable { var startHour = 1 }
        let (decoder, encoder) = (JSONDecoder(), JSONEncoder())
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        encoder.keyEncodingStrategy = .convertToSnakeCase
        let agent = try await TestAgent(["window": ["start_hour": 8]])
        let model = ConfigViewModel(
            agent.client().config, at: "window", as: Window.self, decoder: decoder, encoder: encoder)
        #expect(await model.set(Window(startHour: 9)))
        #expect(model.snapshot?.value == ["start_hour": 9])
        #expect(await model.update { $0.startHour += 1 })
        #expect(model.value == Window(startHour: 10) && model.snapshot?.value == ["start_hour": 10])
    }

    @Test("large values are decoded, encoded and released on another thread than that of the main actor")
    func largeValues() async throws {
        MainQueue.mark()
        #expect(MainQueue.isCurrent)
        let text = String(repeating: "x", count: 10_000)
        let agent = try await TestAgent(["large": ["text": .string(text)], "small": ["text": "x"]])
        let config = agent.client().config
        let uses = TracedText.Uses()
        try await TracedText.$uses.withValue(uses) {
            #expect(try await config.value(at: "large", as: TracedText.self).text == text)
            #expect(try await config.value(at: "small", default: TracedText(text)).text == "x")
            try await config.set(encoding: TracedText(text + "1"), at: "large")
            #expect(
                try await config.update(at: "large", as: TracedText.self) { $0 = TracedText(text + "2") }.text.last
                    == "2")
            let model = ConfigViewModel<TracedText>(agent.client().config, at: "large")
            #expect(await model.set(TracedText(text + "3")))
            #expect(await model.update { $0 = TracedText(text + "4") })
            #expect(model.value?.text.last == "4")
            await model.follow(
                LarderSnapshots(
                    AsyncStream { continuation in
                        continuation.yield(Self.snapshot(["text": .string(text + "5")], revision: 1, epoch: "f"))
                        continuation.finish()
                    }))
            #expect(model.value?.text.last == "5")
        }
        #expect(uses.onMain.decoded == 0 && uses.onMain.encoded == 0)
        #expect(uses.elsewhere.decoded >= 6 && uses.elsewhere.encoded >= 6)
    }

    @Test("a value that a newer one replaces is released on another thread than that of the main actor")
    func releasesElsewhere() async throws {
        MainQueue.mark()
        let text = String(repeating: "x", count: 10_000)
        let uses = TracedText.Uses()
        let model = ConfigViewModel<TracedText>(LarderClient(socket: "/nonexistent").config)
        await TracedText.$uses.withValue(uses) {
            await model.follow(
                LarderSnapshots(
                    AsyncStream { continuation in
                        for revision in 1...3 {
                            continuation.yield(Self.snapshot(["text": .string(text)], revision: revision))
                        }
                        continuation.finish()
                    }))
        }
        #expect(uses.elsewhere.released == 2 && uses.onMain.released == 0)
        #expect(model.value?.text == text)
    }

    @Test("snapshots that arrive while a large value is decoded are shown in their order")
    func orderWhileDecoding() async throws {
        let text = String(repeating: "x", count: 10_000)
        let model = ConfigViewModel<TracedText>(LarderClient(socket: "/nonexistent").config)
        let followers = (1...8).map { revision in
            Task {
                await model.follow(
                    LarderSnapshots(
                        AsyncStream { continuation in
                            let value: JSONValue = ["text": .string(revision % 2 == 0 ? "\(revision)" : text)]
                            continuation.yield(Self.snapshot(value, revision: revision))
                            continuation.finish()
                        }))
                #expect(model.snapshot.map { $0.revision >= revision } == true)
            }
        }
        for follower in followers { await follower.value }
        #expect(model.snapshot?.revision == 8 && model.value?.text == "8")
    }

    @Test("a call whose value cannot be read afterwards fails, instead of waiting for the agent")
    func disconnectedCall() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let model = ConfigViewModel<JSONValue>(agent.client().config, at: "limit")
            let call = Task { await model.set(20) }
            let connection = try await agent.accept()
            try await connection.reply(
                connection.request("config.get"), ["value": 10, "revision": 1, "epoch": "e1", "state": "fresh"])
            try await connection.reply(
                connection.request("config.apply"), ["revision": 2, "epoch": "e1", "changed": true])
            _ = try await connection.request("config.subscribe")
            connection.close()
            #expect(await call.value == false)
            #expect(model.lastError?.code == .disconnected)
            #expect(!model.isLoading)
        }
    }

    @Test("a model of JSON values follows an agent, and a resumed subscription without a new snapshot ends the wait")
    func realStream() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let model = ConfigViewModel<JSONValue>(client.config)
            let follower = Task { await model.follow() }
            let first = try await agent.accept()
            try await first.subscription(revision: 1)
            try await first.snapshot(1, revision: 1, "one")
            await wait { model.snapshot != nil }
            #expect(model.value == "one")
            first.close()
            let second = try await agent.accept()
            #expect(model.activities == [.reconnection])
            #expect(model.value == "one")
            try await second.subscription(revision: 1)
            await wait { !model.isLoading }
            #expect(model.lastError == nil)
            try await second.snapshot(1, revision: 2, "two")
            await wait { model.snapshot?.revision == 2 }
            follower.cancel()
            await follower.value
            #expect(!model.isLoading)
        }
    }
}

@Suite("Errors of concurrent work")
@MainActor
struct ConcurrentErrorTests {
    private struct Search: Codable {
        var limit = 10
    }

    /// Forwards the error of concurrent work, on the actor of its caller.
    private func forwarded() async throws(LarderClientError) -> Int {
        try await concurrently { () async throws(LarderClientError) in
            throw LarderClientError(.invalidArgument, "expected")
        }
    }

    @Test("the caller of a function that forwards an error is on its actor again")
    func returnsToActor() async {
        MainQueue.mark()
        do throws(LarderClientError) {
            _ = try await forwarded()
            Issue.record("the error was not thrown")
        } catch {
            #expect(MainQueue.isCurrent)
        }
    }

    @Test("a value that cannot be decoded changes a view model on the main actor")
    func wrongValue() async throws {
        MainQueue.mark()
        let agent = try await TestAgent(["search": ["limit": "x"]])
        let model = ConfigViewModel(agent.client().config, at: "search", default: Search())
        let isOnMain = Mutex<[Bool]>([])
        withObservationTracking {
            _ = model.lastError
        } onChange: {
            isOnMain.withLock { $0.append(MainQueue.isCurrent) }
        }
        #expect(await model.refresh() == false || model.lastError != nil)
        #expect(model.lastError?.code == .decodingFailed)
        #expect(isOnMain.withLock { $0 } == [true])
    }
}

/// Reports whether code runs on the main queue, as the main actor does. The thread of the queue is not fixed.
enum MainQueue {
    private static let key = DispatchSpecificKey<Bool>()

    static func mark() { DispatchQueue.main.setSpecific(key: key, value: true) }

    static var isCurrent: Bool { DispatchQueue.getSpecific(key: key) ?? false }
}

/// A text that records the queues on which it is decoded, encoded and released.
private final class TracedText: Codable, Sendable {
    struct Count {
        var decoded = 0
        var encoded = 0
        var released = 0
    }

    final class Uses: Sendable {
        private let counts = Mutex<(onMain: Count, elsewhere: Count)>((Count(), Count()))

        var onMain: Count { counts.withLock { $0.onMain } }
        var elsewhere: Count { counts.withLock { $0.elsewhere } }

        func add(_ use: any WritableKeyPath<Count, Int> & Sendable) {
            let isOnMain = MainQueue.isCurrent
            counts.withLock { counts in
                if isOnMain { counts.onMain[keyPath: use] += 1 } else { counts.elsewhere[keyPath: use] += 1 }
            }
        }
    }

    @TaskLocal static var uses: Uses?

    let text: String
    private let uses: Uses?

    init(_ text: String) { (self.text, uses) = (text, nil) }

    private enum Key: CodingKey { case text }

    init(from decoder: any Decoder) throws {
        text = try decoder.container(keyedBy: Key.self).decode(String.self, forKey: .text)
        uses = Self.uses
        uses?.add(\.decoded)
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        try container.encode(text, forKey: .text)
        Self.uses?.add(\.encoded)
    }

    deinit { uses?.add(\.released) }
}

/// Waits until a condition of observable properties holds, or until the task is cancelled.
@MainActor
func wait(until condition: () -> Bool) async {
    while !Task.isCancelled {
        let (change, continuation) = AsyncStream.makeStream(of: Void.self)
        let holds = withObservationTracking {
            condition()
        } onChange: {
            continuation.finish()
        }
        if holds { return }
        // `onChange` is called before the change. The loop continues after it, because both run on the main actor.
        for await _ in change {}
    }
}
