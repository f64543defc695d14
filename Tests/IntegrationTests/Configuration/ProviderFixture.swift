import Configuration
import ConfigurationLarder
import LarderClient

/// The parts of a test of ``LarderProvider`` against an agent process.
enum ProviderFixture {
    /// A client that reconnects soon after the agent has started again.
    static func client(_ home: AgentHome) -> LarderClient {
        var configuration = LarderClient.Configuration()
        configuration.backoff = LarderBackoff(base: .milliseconds(10), cap: .milliseconds(100))
        return LarderClient(socket: home.socket, configuration: configuration)
    }

    /// A provider of the agent of `home`, which must be running.
    static func provider(
        _ home: AgentHome, namespace: String = LarderClient.defaultNamespace, startup: LarderProvider.Startup? = nil
    ) async throws -> LarderProvider {
        try await LarderProvider(
            client: client(home), namespace: namespace, startup: startup ?? .required(timeout: .seconds(60)))
    }

    /// Creates a provider of the agent of `home`, and calls `body` while the provider follows the agent.
    static func following(
        _ home: AgentHome, startup: LarderProvider.Startup? = nil, _ body: (LarderProvider) async throws -> Void
    ) async throws {
        let provider = try await provider(home, startup: startup)
        try await withThrowingTaskGroup { group in
            group.addTask { try await provider.run() }
            try await body(provider)
            group.cancelAll()
        }
    }

    /// Waits until the provider has an integer at a key.
    static func wait(for value: Int, at key: AbsoluteConfigKey, in provider: LarderProvider) async throws {
        try await provider.watchValue(forKey: key, type: .int) { updates in
            for await update in updates {
                if try update.get().value?.content == .int(value) { return }
            }
        }
    }
}
