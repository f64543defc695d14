import Glibc
import LarderClient
import LarderProtocol
import LarderTesting
import SystemPackage
import Testing

@Suite("Calls that pass descriptors", .timeLimit(.minutes(15)))
struct MappedCallTests {
    private static let opened: JSONValue = [
        "namespace": "default", "revision": 1, "epoch": "9f86d081884c7d65", "state": "fresh", "bytes": 200,
        "descriptor": true, "secretPaths": [],
    ]

    @Test("a reply to config.open without a descriptor is an error, whose advice is a copy")
    func noDescriptor() async throws {
        try await ScriptedAgent.with { agent in
            let client = agent.client()
            async let snapshot = client.config.mappedSnapshot()
            let connection = try await agent.accept()
            try await connection.reply(connection.request("config.open"), Self.opened)
            do {
                _ = try await snapshot
                Issue.record("a reply without a descriptor was accepted")
            } catch let error as LarderClientError {
                #expect(error.code == .protocolViolation && error.advice?.contains("sharesMemory: false") == true)
            }
        }
    }

    @Test("a disconnect before the reply fails with `disconnected`; an error reply is thrown")
    func failures() async throws {
        try await ScriptedAgent.with { agent in
            let client = agent.client()
            async let first = error { try await client.config.mappedSnapshot() }
            let connection = try await agent.accept()
            _ = try await connection.request("config.open")
            connection.close()
            #expect(await first?.code == .disconnected)
            async let second = error { try await client.config["shop"].mappedSnapshot() }
            let next = try await agent.accept()
            let request = try await next.request("config.open")
            #expect(request.params?["namespace"]?.string == "shop")
            try await next.fail(request, .unavailable, "nothing yet")
            #expect(await second?.remoteError?.code == .unavailable)
        }
    }

    @Test("`put` passes the file with the request, without inline bytes")
    func put() async throws {
        try await ScriptedAgent.with { agent in
            let client = agent.client()
            let file = open("/dev/null", O_RDONLY | O_CLOEXEC)
            defer { close(file) }
            async let stored = client.images.put(
                file: file, at: "https://a/1.png", cacheKey: "k", lifetime: .seconds(60))
            let connection = try await agent.accept()
            let request = try await connection.request("image.put")
            #expect(
                request.params == [
                    "url": "https://a/1.png", "cacheKey": "k", "descriptor": true, "lifetimeSeconds": 60,
                ])
            try await connection.reply(
                request,
                [
                    "digest": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                    "mediaType": "image/png", "width": 1, "height": 1, "bytes": 67,
                ])
            #expect(try await stored.byteCount == 67)
        }
    }

    /// The ends of a new pipe.
    private static func pipe() throws -> (input: CInt, output: CInt) {
        var ends: [CInt] = [-1, -1]
        try check(Glibc.pipe(&ends))
        return (ends[0], ends[1])
    }

    @Test("images from empty pipes do not block other tasks of the program, and their calls can be cancelled")
    func emptyPipes() async throws {
        let client = LarderClient(socket: "/nonexistent")
        // More calls than there are threads that run tasks.
        let pipes = try (0..<sysconf(CInt(_SC_NPROCESSORS_ONLN)) + 8).map { _ in try Self.pipe() }
        defer { for pipe in pipes { _ = (close(pipe.input), close(pipe.output)) } }
        let calls = pipes.map { pipe in
            Task { await error { try await client.images.put(file: pipe.input, at: "https://a/1.png") } }
        }
        for _ in 0..<100 { await Task { await Task.yield() }.value }
        for call in calls { call.cancel() }
        for call in calls { #expect(await call.value?.code == .cancelled) }
    }

    @Test("an image can come from a pipe")
    func pipe() async throws {
        let client = try await TestAgent(images: TestImageOrigin()).client()
        let pipe = try Self.pipe()
        defer { close(pipe.input) }
        #expect(write(pipe.output, TestImageOrigin.png, TestImageOrigin.png.count) == TestImageOrigin.png.count)
        close(pipe.output)
        let stored = try await client.images.put(
            file: FileDescriptor(rawValue: pipe.input), at: "https://img.example.org/pipe.png")
        #expect(stored.byteCount == TestImageOrigin.png.count)
    }

    @Test("a descriptor that is not open for reading is an error", arguments: [true, false])
    func notReadable(isOpen: Bool) async throws {
        let pipe = try Self.pipe()
        defer { _ = (close(pipe.input), close(pipe.output)) }
        let client = LarderClient(socket: "/nonexistent")
        let file = isOpen ? pipe.output : -1
        #expect(
            await error { try await client.images.put(file: file, at: "https://a/1.png") }?.code == .invalidArgument)
    }

    @Test("a cancelled task stops waiting, and its connection closes")
    func cancelled() async throws {
        try await ScriptedAgent.with { agent in
            let client = agent.client()
            let task = Task { await error { try await client.config.mappedSnapshot() } }
            let connection = try await agent.accept()
            _ = try await connection.request("config.open")
            task.cancel()
            #expect(await task.value?.code == .cancelled)
            #expect(try await connection.line() == nil)
        }
    }

    @Test("with `sharesMemory: false`, the agent sends the document inline, and an event makes the snapshot outdated")
    func copied() async throws {
        try await ScriptedAgent.with { agent in
            let client = agent.client()
            async let opened = client.config.mappedSnapshot(sharesMemory: false)
            let connection = try await agent.accept()
            try await connection.reply(
                connection.request("config.get"),
                ["value": ["n": 1], "revision": 7, "epoch": "9f86d081884c7d65", "state": "fresh"])
            let subscription = try await connection.subscription(revision: 7, epoch: "9f86d081884c7d65")
            #expect(subscription.params?["mode"]?.string == "revision" && subscription.params?["since"]?.int == 7)
            let snapshot = try await opened
            #expect(try snapshot.int(at: "n") == 1 && snapshot.revision == 7 && snapshot.isCurrent)
            try await connection.send(
                #"{"jsonrpc":"2.0","method":"config.event","params":{"subscription":1,"sequence":1,"kind":"revision","#
                    + #""namespace":"default","epoch":"9f86d081884c7d65","revision":8,"state":"fresh","#
                    + #""reason":"change"}}"#)
            while snapshot.isCurrent { await Task.yield() }
        }
    }

    private static let epoch = "9f86d081884c7d65"

    /// The results of two concurrent requests for a snapshot, after both were complete.
    private struct ConcurrentSnapshots {
        var first: MappedSnapshot
        var second: MappedSnapshot
        var isFirstCurrent: Bool
        var isSecondCurrent: Bool
        /// The subscription that the client then ended.
        var unsubscribed: JSONValue?
    }

    /// Starts two requests for a snapshot at the same time, which get documents with the given revisions. Both subscribe
    /// before the first one is complete.
    private func concurrentSnapshots(
        _ agent: ScriptedAgent, revisions: (Int, Int)
    ) async throws -> ConcurrentSnapshots {
        func document(_ revision: Int) -> JSONValue {
            [
                "value": ["n": .int(revision)], "revision": .int(revision), "epoch": .string(Self.epoch),
                "state": "fresh",
            ]
        }
        func subscription(_ number: Int, _ revision: Int) -> JSONValue {
            [
                "subscription": .int(number), "revision": .int(revision), "epoch": .string(Self.epoch),
                "state": "fresh",
            ]
        }
        let client = agent.client()
        let first = Task { try await client.config.mappedSnapshot(sharesMemory: false) }
        let connection = try await agent.accept()
        let firstGet = try await connection.request("config.get")
        let second = Task { try await client.config.mappedSnapshot(sharesMemory: false) }
        let secondGet = try await connection.request("config.get")
        try await connection.reply(firstGet, document(revisions.0))
        let firstSubscription = try await connection.request("config.subscribe")
        try await connection.reply(secondGet, document(revisions.1))
        let secondSubscription = try await connection.request("config.subscribe")
        try await connection.reply(firstSubscription, subscription(1, revisions.0))
        let firstSnapshot = try await first.value
        #expect(firstSnapshot.isCurrent)
        try await connection.reply(secondSubscription, subscription(2, revisions.1))
        let secondSnapshot = try await second.value
        let unsubscribed = try await connection.request("config.unsubscribe").params?["subscription"]
        // The end of the connection would invalidate both snapshots.
        return withExtendedLifetime((client, connection)) {
            ConcurrentSnapshots(
                first: firstSnapshot, second: secondSnapshot, isFirstCurrent: firstSnapshot.isCurrent,
                isSecondCurrent: secondSnapshot.isCurrent, unsubscribed: unsubscribed)
        }
    }

    @Test("a snapshot that a concurrent call replaces with a newer one is no longer current")
    func replaced() async throws {
        try await ScriptedAgent.with { agent in
            let found = try await concurrentSnapshots(agent, revisions: (7, 8))
            #expect(!found.isFirstCurrent && found.isSecondCurrent)
            #expect(found.first.revision == 7 && found.second.revision == 8)
            #expect(found.unsubscribed == 1)
        }
    }

    @Test("of two calls at the same time, the second one returns the snapshot of the first if its own is not newer")
    func shared() async throws {
        for revisions in [(7, 7), (8, 7)] {
            try await ScriptedAgent.with { agent in
                let found = try await concurrentSnapshots(agent, revisions: revisions)
                #expect(found.first == found.second && found.isFirstCurrent)
                #expect(found.unsubscribed == 2)
            }
        }
    }
}
