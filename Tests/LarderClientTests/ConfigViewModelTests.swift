import LarderJSON
import LarderClient
@testable import LarderClientCore
import Testing

@Suite("ConfigViewModel", .timeLimit(.minutes(5)))
@MainActor
struct ConfigViewModelTests {
    @Test("the model has the newest snapshot, and while disconnected it keeps the snapshot and has the error")
    func follows() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let model = ConfigViewModel<JSONValue>(client)
            #expect(model.snapshot == nil)
            #expect(!model.isLoading)
            let (interruptions, continuation) = AsyncStream.makeStream(of: ConfigInterruption.self)
            let follower = Task {
                await model.follow(client.config.snapshots(onInterruption: { continuation.yield($0) }))
            }
            let first = try await agent.accept()
            try await first.subscription(revision: 1)
            try await first.snapshot(1, revision: 1, "one")
            while model.snapshot == nil { await Task.yield() }
            #expect(model.snapshot?.value == "one")
            #expect(!model.isLoading)
            first.close()
            for await _ in interruptions { break }
            #expect(model.snapshot?.value == "one")
            #expect(model.lastError?.code == .disconnected)
            let second = try await agent.accept()
            #expect(model.isLoading)
            try await second.subscription(revision: 2)
            try await second.snapshot(1, revision: 2, "two")
            while model.snapshot?.revision != 2 { await Task.yield() }
            #expect(model.lastError == nil)
            follower.cancel()
            await follower.value
            #expect(!model.isLoading)
        }
    }

    @Test("a permanent error ends `follow` and remains the last error of the model")
    func fails() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let model = ConfigViewModel<JSONValue>(client)
            async let end: Void = model.follow(client.config.snapshots(namespace: "nope"))
            let connection = try await agent.accept()
            try await connection.fail(connection.request(), .unknownNamespace, "no such namespace")
            await end
            #expect(model.lastError?.remoteError?.code == .unknownNamespace)
        }
    }
}
