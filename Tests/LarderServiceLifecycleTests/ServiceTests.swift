import Configuration
import ConfigurationLarder
import LarderServiceLifecycle
import LarderTesting
import Logging
import Synchronization
import Testing

@Suite("Clients in a service group", .timeLimit(.minutes(15)))
struct ServiceTests {
    @Test("services that are listed after the client can make calls during their shutdown; then the client closes")
    func order() async throws {
        let client = try await TestAgent(["limit": 10]).client()
        let limitAtShutdown = Mutex<Int?>(nil)
        let worker = ClosureService {
            try await gracefulShutdown()
            let limit = try await client.config.value(at: "limit", as: Int.self)
            limitAtShutdown.withLock { $0 = limit }
        }
        try await group(LarderService(client), worker, shutsDownAfter: {}).run()
        #expect(limitAtShutdown.withLock { $0 } == 10)
        #expect(await pingError(client)?.code == .closed)
    }

    @Test("the client connects without a call, and reconnects after a disconnect, until the group shuts down")
    func reconnects() async throws {
        let agent = try await TestAgent()
        let client = agent.client()
        let observer = agent.client()
        try await group(LarderService(client)) {
            let before = try await connections(observer) { $0.count == 2 }
            await agent.disconnect()
            try await agent.clock.waitForSleepers()
            agent.clock.advance(by: .seconds(10))
            _ = try await connections(observer) { $0.subtracting(before).count == 2 }
        }.run()
        #expect(await pingError(client)?.code == .closed)
    }

    @Test("a group starts without an agent, and shuts down although the client waits before its next attempt")
    func unreachableAgent() async throws {
        let agent = try await TestAgent()
        agent.faults.isUnreachable = true
        let client = agent.client()
        try await group(LarderService(client)) { try await agent.clock.waitForSleepers() }.run()
        agent.faults.isUnreachable = false
        #expect(await pingError(client)?.code == .closed)
    }

    @Test("a cancelled group closes the client")
    func cancellation() async throws {
        let client = try await TestAgent().client()
        let group = ServiceGroup(services: [LarderService(client)], logger: logger)
        let running = Task { try await group.run() }
        running.cancel()
        _ = await running.result
        #expect(await pingError(client)?.code == .closed)
    }

    @Test("a group that runs a client twice fails")
    func secondService() async throws {
        let client = try await TestAgent().client()
        let service = LarderService(client)
        let group = ServiceGroup(services: [service, service], logger: logger)
        let error = await #expect(throws: LarderClientError.self) { try await group.run() }
        #expect(error?.code == .alreadyRunning)
    }

    @Test("a provider for swift-configuration is a service that follows the agent until the group shuts down")
    func provider() async throws {
        let agent = try await TestAgent(["limit": 10])
        let provider = try await LarderProvider(client: agent.client())
        let config = ConfigReader(provider: provider)
        #expect(config.int(forKey: "limit") == 10)
        try await group(provider) {
            try await agent.publish(["limit": 20])
            try await agent.waitUntil { config.int(forKey: "limit") == 20 }
        }.run()
        // The group has ended, so another task can run the provider.
        try await group(provider) {}.run()
    }

    @Test("for a value of the wrong kind, a watch yields nil or the default, and continues")
    func wrongKind() async throws {
        let agent = try await TestAgent(["limit": 10])
        let provider = try await LarderProvider(client: agent.client())
        let config = ConfigReader(provider: provider)
        try await withThrowingTaskGroup { group in
            group.addTask { try await provider.run() }
            try await config.watchInt(forKey: "limit") { limits in
                try await config.watchInt(forKey: "limit", default: 5) { limitsWithDefault in
                    var limits = limits.makeAsyncIterator()
                    var limitsWithDefault = limitsWithDefault.makeAsyncIterator()
                    for value: JSONValue in [10, "x", 20] {
                        try await agent.publish(["limit": value])
                        #expect(await limits.next(isolation: #isolation) == .some(value.int))
                        #expect(await limitsWithDefault.next(isolation: #isolation) == value.int ?? 5)
                    }
                }
            }
            group.cancelAll()
        }
    }

    private let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })

    /// Returns a group that shuts down gracefully when `work` has ended.
    private func group(
        _ services: any Service..., shutsDownAfter work: @escaping @Sendable () async throws -> Void
    ) -> ServiceGroup {
        let last = ServiceGroupConfiguration.ServiceConfiguration(
            service: ClosureService(work), successTerminationBehavior: .gracefullyShutdownGroup)
        return ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: services.map { ServiceGroupConfiguration.ServiceConfiguration(service: $0) } + [last],
                logger: logger))
    }

    /// Asks the agent for the IDs of its connections until they meet a condition.
    private func connections(
        _ observer: LarderClient, until condition: (Set<Int>) -> Bool
    ) async throws -> Set<Int> {
        while true {
            let clients = try await observer.call("agent.clients")["clients"]
            let connections = Set(clients?.elements.compactMap { $0["id"]?.int } ?? [])
            if condition(connections) { return connections }
            await Task.yield()
        }
    }

    private func pingError(_ client: LarderClient) async -> LarderClientError? {
        do throws(LarderClientError) {
            try await client.agent.ping()
            return nil
        } catch {
            return error
        }
    }
}
