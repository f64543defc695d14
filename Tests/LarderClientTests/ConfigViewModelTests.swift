import LarderClient
import Testing

@Suite("ConfigViewModel", .timeLimit(.minutes(5)))
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
        ConfigViewModel(LarderClient(socket: "/nonexistent"), at: "search", default: defaultValue)
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
        await follow(model, Self.snapshot(["limit": 30], revision: 3))
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
            await model.follow(LarderSnapshots(steps, onInterruption: { interruptions.yield($0) }))
        }
        while model.activities.isEmpty { await Task.yield() }
        #expect(model.activities == [.firstValue])
        continuation.yield(Self.snapshot(["limit": 10], revision: 1))
        while model.isLoading { await Task.yield() }
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
        while model.isLoading { await Task.yield() }
        #expect(model.lastError == nil)
        following.cancel()
        await following.value
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

    @Test("a model of JSON values follows an agent, and a resumed subscription without a new snapshot ends the wait")
    func realStream() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let model = ConfigViewModel<JSONValue>(client)
            let follower = Task { await model.follow() }
            let first = try await agent.accept()
            try await first.subscription(revision: 1)
            try await first.snapshot(1, revision: 1, "one")
            while model.snapshot == nil { await Task.yield() }
            #expect(model.value == "one")
            first.close()
            let second = try await agent.accept()
            #expect(model.activities == [.reconnection])
            #expect(model.value == "one")
            try await second.subscription(revision: 1)
            while model.isLoading { await Task.yield() }
            #expect(model.lastError == nil)
            try await second.snapshot(1, revision: 2, "two")
            while model.snapshot?.revision != 2 { await Task.yield() }
            follower.cancel()
            await follower.value
            #expect(!model.isLoading)
        }
    }
}
