import Dispatch
import LarderClient
import LarderJSON
import LarderProtocol
import LarderTesting
import Testing

@Suite("Shared subscriptions", .timeLimit(.minutes(15)))
struct SharedSubscriptionTests {
    @Test("streams of the same path share a subscription; each starts with a snapshot of its own request")
    func sharedSubscription() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            var first = client.config.snapshots(at: "a").makeAsyncIterator()
            var second = client.config.snapshots(at: "a").makeAsyncIterator()
            async let script: Void = {
                let connection = try await agent.accept()
                try await connection.subscription(revision: 4)
                try await connection.snapshot(1, revision: 4, "four")
                // The second stream may start after a change, so the snapshot of the first one may be out of date.
                let request = try await connection.request("config.subscribe")
                #expect(request.params?["since"] == nil)
                try await connection.snapshot(2, revision: 5, "five")
                try await connection.reply(
                    request, ["subscription": 2, "revision": 6, "epoch": "e1", "state": "fresh"])
                try await connection.snapshot(1, revision: 6, "six", subscription: 2)
                #expect(try await connection.request("config.unsubscribe").params == ["subscription": 1])
                // The first stream now gets the events of the second subscription.
                try await connection.snapshot(2, revision: 7, "seven", subscription: 2)
                #expect(try await connection.request("config.unsubscribe").params == ["subscription": 2])
            }()
            #expect(try await first.next()?.value == "four")
            #expect(try await second.next()?.value == "six")
            var newest = try await first.next()
            while let snapshot = newest, snapshot.revision < 7 { newest = try await first.next() }
            #expect(newest?.value == "seven")
            #expect(try await second.next()?.value == "seven")
            first = client.config.snapshots(at: "b").makeAsyncIterator()
            second = client.config.snapshots(at: "b").makeAsyncIterator()
            try await script
        }
    }

    @Test("if the task that sends the request is cancelled, another stream of the path sends one")
    func cancelledLeader() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let leader = Task { for try await _ in client.config.snapshots() {} }
            let connection = try await agent.accept()
            let request = try await connection.request("config.subscribe")
            let other = Task.immediate { try await client.config.snapshots().first { _ in true } }
            leader.cancel()
            try await leader.value
            _ = try await connection.request("request.cancel")
            try await connection.fail(request, .cancelled, "cancelled")
            try await connection.subscription(revision: 1)
            try await connection.snapshot(1, revision: 1, "one")
            #expect(try await other.value?.value == "one")
        }
    }

    /// An actor that follows a stream, and can be busy.
    private actor Consumer {
        func first(of snapshots: LarderSnapshots) async throws -> LarderSnapshot? {
            for try await snapshot in snapshots { return snapshot }
            return nil
        }

        func work(until end: DispatchSemaphore, _ begun: AsyncStream<Void>.Continuation) {
            begun.finish()
            end.wait()
        }
    }

    @Test("a stream whose actor is busy when the agent replies does not delay the other streams of its path")
    func busyLeader() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let consumer = Consumer()
            let leader = Task { try await consumer.first(of: client.config.snapshots()) }
            let connection = try await agent.accept()
            let request = try await connection.request("config.subscribe")
            let (begun, continuation) = AsyncStream.makeStream(of: Void.self)
            let end = DispatchSemaphore(value: 0)
            defer { end.signal() }
            let work = Task { await consumer.work(until: end, continuation) }
            for await _ in begun {}
            let other = Task {
                defer { end.signal() }
                return try await client.config.snapshots().first { _ in true }
            }
            try await connection.reply(request, ["subscription": 1, "revision": 1, "epoch": "e1", "state": "fresh"])
            try await connection.snapshot(1, revision: 1, 1)
            let again = try await connection.request("config.subscribe")
            try await connection.reply(again, ["subscription": 2, "revision": 1, "epoch": "e1", "state": "fresh"])
            try await connection.snapshot(1, revision: 1, 1, subscription: 2)
            #expect(try await other.value?.value == 1)
            await work.value
            #expect(try await leader.value?.value == 1)
        }
    }

    @Test("after a disconnect, each stream of a path resumes, and no snapshot is delivered twice")
    func sharedResumption() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let snapshots = client.config.snapshots()
            var (first, second) = (snapshots.makeAsyncIterator(), snapshots.makeAsyncIterator())
            async let script: Void = {
                let connection = try await agent.accept()
                try await connection.subscription(revision: 1)
                try await connection.snapshot(1, revision: 1, 1)
                let request = try await connection.request("config.subscribe")
                try await connection.reply(
                    request, ["subscription": 2, "revision": 1, "epoch": "e1", "state": "fresh"])
                try await connection.snapshot(1, revision: 1, 1, subscription: 2)
                _ = try await connection.request("config.unsubscribe")
                connection.close()
                let next = try await agent.accept()
                #expect(try await next.subscription(revision: 2).params?["since"] == 1)
                try await next.snapshot(1, revision: 2, 2)
                // The other stream has not joined yet, so it lacks the snapshot of the shared subscription.
                let again = try await next.request("config.subscribe")
                #expect(again.params?["since"] == nil)
                try await next.reply(again, ["subscription": 2, "revision": 2, "epoch": "e1", "state": "fresh"])
                try await next.snapshot(1, revision: 2, 2, subscription: 2)
                _ = try await next.line()
            }()
            #expect(try await first.next()?.value == 1)
            #expect(try await second.next()?.value == 1)
            #expect(try await first.next()?.value == 2)
            #expect(try await second.next()?.value == 2)
            try await script
        }
    }

    @Test("streams of more paths than a connection permits use further connections, and each gets its value")
    func manyPaths() async throws {
        let members = (0..<140).map { ("p\($0)", JSONValue.int($0)) }
        let agent = try await TestAgent(["models": .object(members)])
        let client = agent.client()
        var iterators = members.map { client.config.snapshots(at: "models.\($0.0)").makeAsyncIterator() }
        for index in iterators.indices { #expect(try await iterators[index].next()?.value == .int(index)) }
        #expect(
            try await client.call(AgentClients.self, NoParameters()).clients.map(\.subscriptions).sorted() == [
                12, 64, 64,
            ])
        try await agent.publish(["models": .object(members.map { ($0.0, JSONValue.int(-1)) })])
        for index in iterators.indices { #expect(try await iterators[index].next()?.value == -1) }
    }

    @Test("any number of streams of the same path have one subscription, and all get each value")
    func manyStreams() async throws {
        let agent = try await TestAgent(["limit": 1])
        let client = agent.client()
        try await withThrowingTaskGroup { group in
            let (started, continuation) = AsyncStream.makeStream(of: Void.self)
            for mode in [LarderSnapshots.Mode.snapshot, .patch] {
                for _ in 0..<100 {
                    group.addTask {
                        for try await snapshot in client.config.snapshots(mode: mode) {
                            if snapshot.value?["limit"] == 1 { continuation.yield() }
                            if snapshot.value?["limit"] == 2 { break }
                        }
                    }
                }
            }
            var count = 0
            for await _ in started {
                count += 1
                if count == 200 { break }
            }
            while try await client.call(AgentClients.self, NoParameters()).clients.map(\.subscriptions) != [2] {
                await Task.yield()
            }
            try await agent.publish(["limit": 2])
            try await group.waitForAll()
        }
    }

    @Test("if all connections of the client are at the agent's limit, the stream ends with `tooManyStreams`")
    func noRoom() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let failure = error { for try await _ in client.config.snapshots() {} }
            for _ in 0..<LarderClient.maximumConnections {
                let connection = try await agent.accept()
                try await connection.fail(connection.request("config.subscribe"), .limitExceeded, "64 subscriptions")
                try await connection.reply(
                    connection.request("agent.info"), ["limits": ["subscriptionsPerConnection": 0]])
            }
            #expect(await failure?.code == .tooManyStreams)
        }
    }

    @Test("if another limit of the agent is reached, the stream tries again on the same connection")
    func limitOfUser() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let first = client.config.snapshots().first { _ in true }
            let connection = try await agent.accept()
            try await connection.fail(connection.request("config.subscribe"), .limitExceeded, "limit of the user")
            try await connection.reply(
                connection.request("agent.info"), ["limits": ["subscriptionsPerConnection": 64]])
            try await connection.subscription(revision: 1)
            try await connection.snapshot(1, revision: 1, 1)
            #expect(try await first?.value == 1)
        }
    }
}
