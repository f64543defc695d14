#if AgentTests
    import LarderTesting
    import Testing

    @testable import Shop

    @Test("the service continues after the agent was unreachable")
    func continuesAfterOutage() async throws {
        let agent = try await TestAgent(["search": ["limit": 10, "hosts": ["a"]]])
        let service = SearchService(client: agent.client())
        let running = Task { try await service.run() }
        try await agent.waitUntil { await !service.settings.hosts.isEmpty }

        await agent.disconnect()
        try await agent.clock.waitForSleepers()
        #expect(await service.settings.limit == 10)

        try await agent.publish(["search": ["limit": 25, "hosts": ["a"]]])
        agent.clock.advance(by: .seconds(10))
        try await agent.waitUntil { await service.settings.limit == 25 }
        running.cancel()
    }
#endif
