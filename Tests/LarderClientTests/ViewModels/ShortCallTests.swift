import LarderClient
import LarderTesting
import Testing

@Suite("Calls without the arguments that have defaults", .timeLimit(.minutes(15)))
struct ShortCallTests {
    @Test("code that takes any configuration can omit the same arguments as with a client")
    func config() async throws {
        let configs: [any ConfigCalls] = [
            MemoryConfig(["limit": 10]), try await TestAgent(["limit": 10]).client().config,
        ]
        for config in configs {
            #expect(try await config.snapshot().value == ["limit": 10])
            #expect(try await config.snapshot(at: "limit").value == 10)
            var snapshots = config.snapshots().makeAsyncIterator()
            #expect(try await snapshots.next()?.value == ["limit": 10])
            var limits = config.snapshots(at: "limit").makeAsyncIterator()
            #expect(try await limits.next()?.value == 10)
            try await config.set(11, at: "limit")
            try await config.apply { $0.set(12, at: "limit", ifValue: .equals(11)) }
            try await config.apply(reason: "more") { $0.set(13, at: "limit") }
            let preview = try await config.apply(dryRun: true) { $0.set(14, at: "limit") }
            #expect(preview?.hasEffect == true)
            try await config.unset(at: "other")
            try await config.unsetAll()
            #expect(try await config.value(at: "limit", as: Int.self) == 10)
            // The agent has no source.
            guard config is MemoryConfig else { continue }
            #expect(try await config.snapshot(at: "limit", maximumAge: .seconds(60)).value == 10)
            try await config.refresh()
        }
    }

    @Test("the short calls of a client are not ambiguous")
    func client() async throws {
        let config = try await TestAgent(["limit": 10]).client().config
        #expect(try await config.snapshot().value == ["limit": 10])
        #expect(try await config.snapshot(at: "limit").value == 10)
        var limits = config.snapshots(at: "limit").makeAsyncIterator()
        #expect(try await limits.next()?.value == 10)
        try await config.set(11, at: "limit")
        try await config.apply { $0.set(12, at: "limit", ifValue: .equals(11)) }
        try await config.apply(reason: "more") { $0.set(13, at: "limit") }
        #expect(try await config.value(at: "limit", as: Int.self) == 13)
    }

    @Test("code that takes any images can omit the progress")
    func images() async throws {
        struct FailingImages: ImageCalls {
            func get(
                _ request: LarderImageRequest, onProgress: (@Sendable (DownloadProgress) -> Void)?
            ) async throws(LarderClientError) -> LeasedImage { throw LarderClientError(.timeout, request.url) }
        }
        let client = try await TestAgent().client().images
        for images in [FailingImages(), client] as [any ImageCalls] {
            let url = "https://img.example.org/\(1).png"
            await #expect(throws: LarderClientError.self) { try await images.get(LarderImageRequest(url)) }
            await #expect(throws: LarderClientError.self) { try await images.get(at: url) }
            await #expect(throws: LarderClientError.self) { try await images.get("https://img.example.org/1.png") }
        }
        await #expect(throws: LarderClientError.self) { try await client.get(at: "https://img.example.org/1.png") }
        await #expect(throws: LarderClientError.self) { try await client.get("https://img.example.org/1.png") }
    }
}
