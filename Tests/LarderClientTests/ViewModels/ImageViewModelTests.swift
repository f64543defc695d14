import LarderClient
import LarderProtocol
import LarderTesting
import Testing

@Suite("ImageViewModel", .timeLimit(.minutes(15)))
@MainActor
struct ImageViewModelTests {
    private let origin = TestImageOrigin()
    private let logo = "https://img.example.org/logo.png"
    private let photo = "https://img.example.org/photo.png"

    private func model() async throws -> ImageViewModel {
        origin.add(TestImageOrigin.png, at: logo)
        origin.add(TestImageOrigin.png, at: photo)
        return ImageViewModel(try await TestAgent(images: origin).client().images)
    }

    @Test("a new model is empty, and has the image once it is loaded")
    func loads() async throws {
        let model = try await model()
        guard case .empty = model.phase else { return #expect(Bool(false), "\(model.phase)") }
        await model.load(logo)
        guard case .loaded(let image) = model.phase else { return #expect(Bool(false), "\(model.phase)") }
        #expect(image.info.mediaType == "image/png")
        #expect(model.image?.path == image.path)
    }

    @Test("while an image loads, the model has its progress and the image before")
    func progress() async throws {
        origin.add(TestImageOrigin.png, at: logo)
        origin.add(TestImageOrigin.png, at: photo)
        let agent = try await TestAgent(images: origin)
        let model = ImageViewModel(agent.client().images)
        await model.load(logo)
        origin.hold(at: photo, after: 20)
        let loading = Task { await model.load(photo) }
        try await origin.waitUntilHeld(at: photo)
        await wait {
            if case .loading(_?) = model.phase { true } else { false }
        }
        // The agent sends further progress after 100 ms.
        agent.clock.advance(by: .milliseconds(100))
        var progress: DownloadProgress?
        await wait {
            if case .loading(let newest?) = model.phase, newest.receivedBytes > 0 { progress = newest }
            return progress != nil
        }
        #expect(progress?.receivedBytes == 20)
        #expect(progress?.totalBytes == TestImageOrigin.png.count)
        #expect(progress?.isShared == false)
        #expect(model.image != nil)
        origin.release(at: photo)
        await loading.value
        guard case .loaded = model.phase else { return #expect(Bool(false), "\(model.phase)") }
    }

    @Test("a load cancels the load before it")
    func cancelsPrevious() async throws {
        let model = try await model()
        origin.hold(at: photo)
        let first = Task { await model.load(photo) }
        try await origin.waitUntilHeld(at: photo)
        await model.load(logo)
        await first.value
        guard case .loaded = model.phase else { return #expect(Bool(false), "\(model.phase)") }
        #expect(origin.requests(at: photo) == 1)
    }

    @Test("a failed load has the error and the image before")
    func fails() async throws {
        let model = try await model()
        await model.load("https://img.example.org/missing.png")
        guard case .failed(let first, nil) = model.phase else { return #expect(Bool(false), "\(model.phase)") }
        #expect(first.code == .remote)
        await model.load(logo)
        await model.load("https://img.example.org/missing.png", policy: .cacheOnly)
        guard case .failed(let error, let last?) = model.phase else { return #expect(Bool(false), "\(model.phase)") }
        #expect(error.remoteError?.code == .notFound)
        #expect(last.path == model.image?.path)
    }

    @Test("a load whose task is cancelled leaves the model with the image before")
    func cancelled() async throws {
        let model = try await model()
        await model.load(logo)
        origin.hold(at: photo)
        let load = Task { await model.load(photo) }
        try await origin.waitUntilHeld(at: photo)
        load.cancel()
        await load.value
        guard case .loaded = model.phase else { return #expect(Bool(false), "\(model.phase)") }
    }

    @Test("`clear` cancels a load and empties the model")
    func clear() async throws {
        let model = try await model()
        await model.load(logo)
        origin.hold(at: photo)
        let load = Task { await model.load(photo) }
        try await origin.waitUntilHeld(at: photo)
        model.clear()
        await load.value
        guard case .empty = model.phase else { return #expect(Bool(false), "\(model.phase)") }
        #expect(model.image == nil)
    }

    @Test("the model releases its lease for the next image, when it is cleared, and when it is released")
    func leases() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let connection = try await useModel(of: client, agent)
            #expect(try await connection.request("image.release").params == ["lease": 5])
        }
    }

    /// Loads images with the leases 3, 4 and 5, and releases the model.
    private func useModel(of client: LarderClient, _ agent: ScriptedAgent) async throws -> ScriptedConnection {
        let model = ImageViewModel(client.images)
        let first = Task { [photo] in await model.load(photo) }
        let connection = try await agent.accept()
        try await connection.reply(connection.request("image.get"), ImageCallTests.image(lease: 3))
        await first.value
        let second = Task { [photo] in await model.load(photo) }
        try await connection.reply(connection.request("image.get"), ImageCallTests.image(lease: 4))
        #expect(try await connection.request("image.release").params == ["lease": 3])
        await second.value
        model.clear()
        #expect(try await connection.request("image.release").params == ["lease": 4])
        let third = Task { [photo] in await model.load(photo) }
        try await connection.reply(connection.request("image.get"), ImageCallTests.image(lease: 5))
        await third.value
        return connection
    }

    @Test("after the connection that holds its lease has ended, the model loads the image again")
    func renews() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let model = ImageViewModel(client.images)
            let load = Task { [photo] in await model.load(photo, policy: .cacheFirst) }
            let first = try await agent.accept()
            try await first.reply(first.request("image.get"), ImageCallTests.image(lease: 3))
            await load.value
            #expect(model.image?.isValid == true)
            first.close()
            let second = try await agent.accept()
            let request = try await second.request("image.get")
            #expect(request.params?["url"]?.string == photo && request.params?["policy"]?.string == "cacheFirst")
            guard case .loading = model.phase else { return #expect(Bool(false), "\(model.phase)") }
            #expect(model.image?.isValid == false)
            try await second.reply(request, ImageCallTests.image(lease: 4))
            await wait { isLoaded(model) }
            second.close()
            // It also observes the lease of the new image.
            let third = try await agent.accept()
            try await third.fail(third.request("image.get"), .imageRejected, "not an image")
            await wait {
                if case .failed(_, _?) = model.phase { true } else { false }
            }
        }
    }

    private func isLoaded(_ model: ImageViewModel) -> Bool {
        if case .loaded(let image) = model.phase { image.isValid } else { false }
    }

    @Test("the model retries until the agent is reachable again")
    func retries() async throws {
        origin.add(TestImageOrigin.png, at: logo)
        let agent = try await TestAgent(images: origin)
        let model = ImageViewModel(agent.client().images)
        await model.load(logo, policy: .cacheFirst)
        agent.faults.isUnreachable = true
        await agent.disconnect()
        try await agent.clock.waitForSleepers()
        guard case .loading = model.phase else { return #expect(Bool(false), "\(model.phase)") }
        agent.faults.isUnreachable = false
        agent.clock.advance(by: .seconds(10))
        await wait { isLoaded(model) }
        #expect(origin.requests(at: logo) == 1)
    }

    @Test("a model that is cleared or released does not load its image again")
    func doesNotRenew() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let client = agent.client()
            let connection = try await useModel(of: client, agent)
            #expect(try await connection.request("image.release").params == ["lease": 5])
            let model = ImageViewModel(client.images)
            let load = Task { [photo] in await model.load(photo) }
            try await connection.reply(connection.request("image.get"), ImageCallTests.image(lease: 6))
            await load.value
            model.clear()
            #expect(try await connection.request("image.release").params == ["lease": 6])
            connection.close()
            async let snapshot = client.config.snapshot()
            let next = try await agent.accept()
            try await next.reply(
                next.request("config.get"), ["value": 1, "revision": 1, "epoch": "e1", "state": "fresh"])
            #expect(try await snapshot.value == 1)
            guard case .empty = model.phase else { return #expect(Bool(false), "\(model.phase)") }
        }
    }

    @Test("an image that arrives for a load that another one has replaced is released")
    func replacedLease() async throws {
        try await ScriptedAgent.with { (agent) async throws in
            let model = ImageViewModel(agent.client().images)
            let first = Task { [photo] in await model.load(photo) }
            let connection = try await agent.accept()
            let replaced = try await connection.request("image.get")
            let second = Task { [logo] in await model.load(logo) }
            #expect(try await connection.request("request.cancel").params?["id"] == replaced.id)
            let current = try await connection.request("image.get")
            try await connection.reply(replaced, ImageCallTests.image(lease: 3))
            #expect(try await connection.request("image.release").params == ["lease": 3])
            try await connection.reply(current, ImageCallTests.image(lease: 4))
            await first.value
            await second.value
            guard case .loaded = model.phase else { return #expect(Bool(false), "\(model.phase)") }
        }
    }

    @Test("the lists of downloads show a transfer until it is cancelled")
    func downloads() async throws {
        origin.add(TestImageOrigin.png, at: logo)
        origin.hold(at: logo, after: 20)
        let agent = try await TestAgent(images: origin)
        let client = agent.client()
        let (received, continuation) = AsyncStream.makeStream(of: [ImageDownload].self)
        let following = Task { for try await list in client.images.downloads { continuation.yield(list) } }
        defer { following.cancel() }
        var lists = received.makeAsyncIterator()
        #expect(await lists.next() == [])
        let image = Task { [logo] in try await client.images.get(LarderImageRequest(logo)) }
        try await origin.waitUntilHeld(at: logo)
        try await agent.clock.waitForSleepers()
        agent.clock.advance(by: .seconds(1))
        let download = try #require(await lists.next()?.first)
        #expect(download.url == logo && download.receivedBytes == 20 && download.requests == 1)
        #expect(try await client.images.cancel(download: download.id) == 1)
        let error = await #expect(throws: LarderClientError.self) { try await image.value }
        #expect(error?.remoteError?.code == .cancelled)
    }
}
