import Glibc
import LarderClient
import LarderTesting
import Testing

@Suite("Test agents: images", .timeLimit(.minutes(15)))
struct ImageOriginTests {
    private let origin = TestImageOrigin()
    private let url = "https://img.example.org/logo.png"

    private func client() async throws -> (TestAgent, LarderClient) {
        origin.add(TestImageOrigin.png, at: url, maximumAge: .seconds(60))
        let agent = try await TestAgent(images: origin)
        return (agent, agent.client())
    }

    @Test("an image comes from the origin once, and is then cached until it is no longer fresh on the clock")
    func caching() async throws {
        let (agent, client) = try await client()
        let image = try await client.images.get(LarderImageRequest(url))
        #expect(image.info.byteCount == TestImageOrigin.png.count)
        #expect(access(image.path, R_OK) == 0)
        #expect(try await client.images.get(LarderImageRequest(url)).source == .cache)
        #expect(origin.requests(at: url) == 1)
        agent.clock.advance(by: .seconds(61))
        _ = try await client.images.get(LarderImageRequest(url))
        #expect(origin.requests(at: url) == 2)
    }

    @Test("a transfer waits at the byte at which the test holds it")
    func hold() async throws {
        let (_, client) = try await client()
        origin.hold(at: url, after: 20)
        let image = Task { [url] in try await client.images.get(LarderImageRequest(url)) }
        try await origin.waitUntilHeld(at: url)
        origin.release(at: url)
        #expect(try await image.value.info.byteCount == TestImageOrigin.png.count)
    }

    @Test("a client that gives up ends a held transfer, and the agent stops while another one is held")
    func heldAtTheEnd() async throws {
        let (agent, client) = try await client()
        origin.hold(at: url)
        let first = Task { [url] in try await client.images.get(LarderImageRequest(url)) }
        try await origin.waitUntilHeld(at: url)
        #expect(origin.requests(at: url) == 1)
        first.cancel()
        await #expect(throws: LarderClientError.self) { try await first.value }
        let other = "https://img.example.org/other.png"
        origin.add(TestImageOrigin.png, at: other)
        origin.hold(at: other)
        let second = Task { try await client.images.get(LarderImageRequest(other)) }
        try await origin.waitUntilHeld(at: other)
        await agent.shutDown()
        await #expect(throws: LarderClientError.self) { try await second.value }
    }

    @Test(
        "an error status of the origin fails the request; an image that the origin does not have is not found",
        arguments: [(404, RemoteError.Code.notFound), (410, .notFound), (403, .upstreamFailed)])
    func errorStatus(status: Int, code: RemoteError.Code) async throws {
        let (_, client) = try await client()
        origin.fail(at: url, status: status)
        let error = await failure { () async throws(LarderClientError) in
            try await client.images.get(LarderImageRequest(url))
        }
        #expect(error?.remoteError?.code == code)
        #expect(error?.remoteError?.reason == "status")
        #expect(error?.isRetryable == (code != .notFound))
    }

    @Test("an image is still cached after a restart")
    func restart() async throws {
        let (agent, client) = try await client()
        _ = try await client.images.get(LarderImageRequest(url))
        try await agent.restart()
        #expect(try await client.images.get(LarderImageRequest(url)).source == .cache)
        #expect(origin.requests(at: url) == 1)
    }

    @Test("an agent without an origin has no image cache")
    func disabled() async throws {
        let client = try await TestAgent().client()
        let error = await failure { () async throws(LarderClientError) in
            try await client.images.get(LarderImageRequest(url))
        }
        #expect(error?.remoteError?.code == .unavailable)
    }
}
