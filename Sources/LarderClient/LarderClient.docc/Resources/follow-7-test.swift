#if AgentTests
    import LarderTesting
    import Testing

    @testable import Shop

    @Test("the service applies a published document")
    func appliesDocument() async throws {
        let agent = try await TestAgent(["search": ["limit": 10, "hosts": ["a"]]])
        let service = SearchService(client: agent.client())
        let running = Task { try await service.run() }
        try await agent.publish(["search": ["limit": 25, "hosts": ["a", "b"]]])
        try await agent.waitUntil { await service.settings.limit == 25 }
        running.cancel()
    }
#endif
