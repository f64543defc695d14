import LarderJSON
import LarderClient
@testable import LarderClientCore
import LarderProtocol
import LarderTesting
import SystemPackage
import Testing

@Suite("Image calls", .timeLimit(.minutes(15)))
struct ImageCallTests {
    private static let digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    private static let imageFields: [(String, JSONValue)] = [
        ("digest", .string(digest)), ("mediaType", "image/png"), ("width", 640), ("height", 480), ("bytes", 18_342),
    ]

    /// A result of `image.get`.
    static func image(lease: Int) -> JSONValue {
        .object(
            imageFields + [
                ("path", "/c/b"), ("freshness", "stale"), ("source", "joined"), ("ageSeconds", 7),
                ("lease", .int(lease)),
            ])
    }

    /// Makes a call, to which the agent replies with `answer`.
    /// - Returns: the parameters that the agent received, and the result of the call
    private func call<Result: Sendable>(
        _ method: String, answer: JSONValue, _ body: @escaping @Sendable (ImageClient) async throws -> Result
    ) async throws -> (params: JSONValue?, result: Result) {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let result = body(client.images)
            let connection = try await agent.accept()
            let request = try await connection.request(method)
            try await connection.reply(request, answer)
            return (request.params, try await result)
        }
    }

    @Test("`get` sends its parameters, requests a lease that lasts as long as the connection, and returns the image")
    func get() async throws {
        let (params, image) = try await call("image.get", answer: Self.image(lease: 3)) {
            try await $0.get(
                LarderImageRequest(
                    "u", cacheKey: "k", policy: .networkFirst, maximumAge: .milliseconds(1500),
                    expectedDigest: LarderImage.Digest(Self.digest), priority: .high, deadline: .milliseconds(250)))
        }
        #expect(
            params == [
                "url": "u", "cacheKey": "k", "policy": "networkFirst", "maximumAgeSeconds": 1,
                "expectedDigest": .string(Self.digest), "leaseSeconds": 0, "priority": "high",
                "deadlineMilliseconds": 250,
            ])
        #expect(image.path == "/c/b")
        #expect(image.info.digest.description == Self.digest)
        #expect(image.info.mediaType == "image/png" && image.info.width == 640 && image.info.height == 480)
        #expect(image.freshness == .stale && image.source == .sharedDownload && image.age == .seconds(7))
    }

    @Test("a URL can be a text in a variable or a literal with interpolations; the source is named as its constant")
    func urls() async throws {
        let origin = TestImageOrigin()
        let url = "https://a/1.png"
        origin.add(TestImageOrigin.png, at: url)
        let client = try await TestAgent(images: origin).client()
        let first = try await client.images.get(at: url)
        #expect(first.url == url && "\(first.source)" == "download")
        let second = try await client.images.get("https://a/\(1).png")
        #expect(second.url == url && "\(second.source)" == "cache")
        #expect(try await client.images.withImage(at: url) { $0.info.width } == 2)
        for try await step in client.images.prefetch(at: [url]) {
            if case .finished(let summary) = step { #expect(summary.cached == 1) }
        }
    }

    @Test("the agent's error for an image arrives with its reason")
    func refused() async throws {
        let origin = TestImageOrigin()
        origin.add(Array("<!DOCTYPE html><html><body>Sign in</body></html>".utf8), at: "https://a/1.png")
        let client = try await TestAgent(images: origin).client()
        let failure = await error { try await client.images.get("https://a/1.png") }
        #expect(failure?.remoteError?.code == .imageRejected)
        #expect(failure?.remoteError?.reason == "notAnImage")
        #expect(failure?.isRetryable == false)
    }

    @Test("`peek`, `pin`, `unpin`, `remove`, `clear` and `list` send their parameters and return their results")
    func others() async throws {
        let missing = try await call(
            "image.peek", answer: ["cached": false, "decision": "notCached", "revalidates": false]
        ) { try await $0.peek(LarderImageRequest("u", cacheKey: "k", policy: .cacheOnly), explain: true) }
        #expect(missing.params == ["url": "u", "cacheKey": "k", "policy": "cacheOnly", "explain": true])
        #expect(missing.result.action == .notCached && missing.result.cached == nil && !missing.result.validatesLater)

        let pin = try await call("image.pin", answer: .object([("pinned", true)] + Self.imageFields)) {
            try await $0.pin(at: "u", cacheKey: "k")
        }
        #expect(pin.params == ["url": "u", "cacheKey": "k"])
        #expect(pin.result.byteCount == 18_342)
        #expect(try await call("image.unpin", answer: ["wasPinned": true]) { try await $0.unpin(at: "u") }.result)

        let remove = try await call("image.remove", answer: ["removed": true, "images": 1, "bytes": 7]) {
            try await $0.remove(at: "u")
        }
        #expect(remove.result.count == 1 && remove.result.byteCount == 7)
        let clear = try await call("image.clear", answer: ["removed": 2, "bytes": 7]) {
            try await $0.clear(includingPinned: true)
        }
        #expect(clear.params == ["includingPinned": true])
        #expect(clear.result.count == 2 && clear.result.byteCount == 7)
        let list = try await call("image.list", answer: ["images": [], "next": "x"]) {
            try await $0.list(after: "w", limit: 7)
        }
        #expect(list.params == ["after": "w", "limit": 7])
        #expect(list.result.next == "x")
    }
}

@Suite("Scoped images", .timeLimit(.minutes(15)))
struct ScopedImageTests {
    private struct Failure: Error {}

    @Test("the lease is released at the end of the closure, even if it throws", arguments: [false, true])
    func released(throwing: Bool) async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let task = Task {
                try await client.images.withImage("u") { image in
                    if throwing { throw Failure() }
                    return image.path
                }
            }
            let connection = try await agent.accept()
            try await connection.reply(connection.request("image.get"), ImageCallTests.image(lease: 3))
            let release = try await connection.request("image.release")
            #expect(release.id == nil)
            #expect(release.params == ["lease": 3])
            if throwing {
                await #expect(throws: Failure.self) { try await task.value }
            } else {
                #expect(try await task.value == "/c/b")
            }
        }
    }

    @Test("the lease is released if the task is cancelled within the closure")
    func cancelledWithin() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let task = Task {
                try await client.images.withImage("u") { _ in
                    withUnsafeCurrentTask { $0?.cancel() }
                    try Task.checkCancellation()
                }
            }
            let connection = try await agent.accept()
            try await connection.reply(connection.request("image.get"), ImageCallTests.image(lease: 3))
            #expect(try await connection.request("image.release").params == ["lease": 3])
            await #expect(throws: CancellationError.self) { try await task.value }
        }
    }

    @Test("a lease that arrives after the task was cancelled is released")
    func cancelledBefore() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let task = Task { await error { try await client.images.withImage("u") { _ in } } }
            let connection = try await agent.accept()
            let get = try await connection.request("image.get")
            task.cancel()
            #expect(await task.value?.code == .cancelled)
            #expect(try await connection.request("request.cancel").params?["id"] == get.id)
            try await connection.reply(get, ImageCallTests.image(lease: 3))
            #expect(try await connection.request("image.release").params == ["lease": 3])
        }
    }

    @Test("a disconnect during the closure is thrown, unless the closure throws an error of its own")
    func connectionLost() async throws {
        let lost = try await loseConnection { _ in }
        #expect((lost as? LarderClientError)?.code == .disconnected)
        #expect((lost as? LarderClientError)?.isRetryable == true)
        #expect(try await loseConnection { _ in throw Failure() } is Failure)
        // A closure that releases the lease itself does not lose it.
        let client = try await TestAgent(images: origin()).client()
        try await client.images.withImage("https://a/1.png") { $0.release() }
    }

    private func origin() -> TestImageOrigin {
        let origin = TestImageOrigin()
        origin.add(TestImageOrigin.png, at: "https://a/1.png")
        return origin
    }

    /// Calls `withImage` with a closure that runs after the connection has broken. Returns the error of the call.
    private func loseConnection(
        _ body: @escaping @Sendable (LeasedImage) throws -> Void
    ) async throws -> (any Error)? {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let task = Task {
                try await client.images.withImage("u") { image in
                    await image.connection?.waitUntilClosed()
                    try body(image)
                }
            }
            let connection = try await agent.accept()
            try await connection.reply(connection.request("image.get"), ImageCallTests.image(lease: 3))
            connection.close()
            switch await task.result {
            case .success: return nil
            case .failure(let error): return error
            }
        }
    }

    @Test("a lease ends when the last copy of the image is released, and only once")
    func lastCopy() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let connection = try await obtain(client, agent, lease: 3) { image in
                let copy = image
                #expect(copy.url == "u" && copy.isValid)
            }
            #expect(try await connection.request("image.release").params == ["lease": 3])
            async let second: Void = use(client) { image in
                let copy = image
                image.release()
                copy.release()
                #expect(!copy.isValid && !image.isValid)
            }
            try await connection.reply(connection.request("image.get"), ImageCallTests.image(lease: 4))
            try await second
            #expect(try await connection.request("image.release").params == ["lease": 4])
            async let ping: Void = client.agent.ping()
            try await connection.reply(connection.request("agent.ping"), ["pong": true])
            try await ping
        }
    }

    private func use(_ client: LarderClient, _ body: @Sendable (LeasedImage) -> Void) async throws {
        body(try await client.images.get("u"))
    }

    /// Gets an image over a new connection, passes it to `body`, and releases it.
    private func obtain(
        _ client: LarderClient, _ agent: ScriptedAgent, lease: Int, _ body: @Sendable (LeasedImage) -> Void
    ) async throws -> ScriptedConnection {
        async let used: Void = use(client, body)
        let connection = try await agent.accept()
        try await connection.reply(connection.request("image.get"), ImageCallTests.image(lease: lease))
        try await used
        return connection
    }

    @Test("the descriptor of an image has its content, also after the lease; a file that was removed is an error")
    func descriptor() async throws {
        let client = try await TestAgent(images: origin()).client()
        let image = try await client.images.get("https://a/1.png")
        let file = try image.open()
        defer { try? file.close() }
        image.release()
        var bytes = [UInt8](repeating: 0, count: TestImageOrigin.png.count + 1)
        let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0) }
        #expect(Array(bytes[..<count]) == TestImageOrigin.png)
        let removed = LeasedImage(path: "/nonexistent/image", info: image.info)
        let early = #expect(throws: LarderClientError.self) { try removed.open() }
        #expect(early?.reason.contains("during its lease") == true)
        removed.release()
        let late = #expect(throws: LarderClientError.self) { try removed.open() }
        #expect(late?.reason.contains("after the end of its lease") == true)
    }

    @Test("an image for previews, without a lease, is valid until it is released")
    func preview() throws {
        let result = try ImageGet.Result(from: ImageCallTests.image(lease: 1))
        let image = LeasedImage(path: "/c/b", info: LarderImage(result.image), url: "u")
        #expect(image.isValid && image.url == "u")
        image.release()
        #expect(!image.isValid)
    }

    @Test("a lease is not released on another connection, where its number has another meaning")
    func otherConnection() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            async let got = client.images.get("u")
            let first = try await agent.accept()
            try await first.reply(first.request("image.get"), ImageCallTests.image(lease: 3))
            let image = try await got
            first.close()
            await image.connection?.waitUntilClosed()
            async let ping: Void = client.agent.ping()
            let second = try await agent.accept()
            let request = try await second.request("agent.ping")
            image.release()
            try await second.reply(request, ["pong": true])
            try await ping
            async let again: Void = client.agent.ping()
            try await second.reply(second.request("agent.ping"), ["pong": true])
            try await again
        }
    }
}
