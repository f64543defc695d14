import Configuration
import ConfigurationLarder
import LarderClient
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Provider for swift-configuration across restarts", .timeLimit(.minutes(30)))
    struct ProviderRestartTests {
        private static let hostFiles = "{ namespaces: { default: { host: { directory: '@/config.d' } } } }"

        @Test("watches stay open when the agent is killed, and get nothing after the reconnection if nothing differs")
        func killed() async throws {
            try await AgentHome.with { home in
                let agent = try home.start()
                let client = ProviderFixture.client(home)
                try await client.config.replaceAll(with: ["n": 1, "marker": 0])
                try await ProviderFixture.following(home) { provider in
                    try await ConfigReader(provider: provider).watchInt(forKey: "n", default: 0) { updates in
                        var updates = updates.makeAsyncIterator()
                        #expect(await updates.next(isolation: #isolation) == 1)
                        agent.kill()
                        _ = try home.start()
                        try await client.config.set(1, at: "marker")
                        try await ProviderFixture.wait(for: 1, at: "marker", in: provider)
                        try await client.config.set(2, at: "n")
                        #expect(await updates.next(isolation: #isolation) == 2)
                    }
                }
            }
        }

        @Test("a watch gets one value after the reconnection if the value has changed in the meantime")
        func changed() async throws {
            try await AgentHome.with(settings: Self.hostFiles) { home in
                try home.makeDirectory("config.d")
                try home.write("config.d/base.json", #"{"n":1,"marker":0}"#)
                let agent = try home.start()
                try await ProviderFixture.following(home) { provider in
                    let config = ConfigReader(provider: provider)
                    try await config.watchInt(forKey: "n", default: 0) { updates in
                        var updates = updates.makeAsyncIterator()
                        #expect(await updates.next(isolation: #isolation) == 1)
                        agent.kill()
                        try home.write("config.d/base.json", #"{"n":2,"marker":1}"#)
                        #expect(config.int(forKey: "n") == 1)
                        _ = try home.start()
                        #expect(await updates.next(isolation: #isolation) == 2)
                        try home.write("config.d/base.json", #"{"n":3,"marker":1}"#)
                        #expect(await updates.next(isolation: #isolation) == 3)
                    }
                }
            }
        }

        @Test("a watch of snapshots gets one snapshot after the reconnection if and only if the document differs")
        func snapshots() async throws {
            try await AgentHome.with { home in
                let agent = try home.start()
                let client = ProviderFixture.client(home)
                try await client.config.set(1, at: "n")
                try await ProviderFixture.following(home) { provider in
                    try await provider.watchSnapshot { updates in
                        var updates = updates.makeAsyncIterator()
                        func next() async throws -> ConfigContent? {
                            let snapshot = try #require(await updates.next(isolation: #isolation))
                            return try snapshot.value(forKey: "n", type: .int).value?.content
                        }
                        #expect(try await next() == .int(1))
                        agent.kill()
                        _ = try home.start()
                        try await client.config.set(2, at: "n")
                        #expect(try await next() == .int(2))
                    }
                }
            }
        }

        @Test("while the agent is away, reads return the last values and fetches throw; both recover")
        func fetch() async throws {
            try await AgentHome.with { home in
                let agent = try home.start()
                let client = ProviderFixture.client(home)
                try await client.config.set(1, at: "n")
                try await ProviderFixture.following(home) { provider in
                    try await client.config.set(2, at: "n")
                    #expect(try await provider.fetchValue(forKey: "n", type: .int).value?.content == .int(2))
                    #expect(try await provider.fetchValue(forKey: "missing", type: .int).value == nil)
                    try await ProviderFixture.wait(for: 2, at: "n", in: provider)
                    #expect(try agent.stop() == .exit(0))
                    let error = await #expect(throws: LarderProviderError.self) {
                        try await provider.fetchValue(forKey: "n", type: .int)
                    }
                    #expect(error?.code == .fetchFailed && error?.key == "n" && error?.clientError != nil)
                    #expect(try provider.value(forKey: "n", type: .int).value?.content == .int(2))
                    _ = try home.start()
                    #expect(try await provider.fetchValue(forKey: "n", type: .int).value?.content == .int(2))
                    try await client.config.set(3, at: "n")
                    try await ProviderFixture.wait(for: 3, at: "n", in: provider)
                }
            }
        }

        @Test("a provider that starts without the agent reads the exported file, and follows the agent once it starts")
        func optional() async throws {
            try await AgentHome.with { home in
                let client = ProviderFixture.client(home)
                let agent = try home.start()
                try await client.config.set(1, at: "n")
                // The copy is written when the agent stops, at the latest.
                #expect(try agent.stop() == .exit(0))
                try await ProviderFixture.following(home, startup: .optional) { provider in
                    #expect((provider.snapshot() as? LarderProviderSnapshot)?.origin == .exportedFile)
                    #expect(
                        try provider.value(forKey: "n", type: .int).value == ConfigValue(.int(1), isSecret: true))
                    try await provider.watchValue(forKey: "n", type: .int) { updates in
                        var updates = updates.makeAsyncIterator()
                        #expect(try await updates.next(isolation: #isolation)?.get().value?.content == .int(1))
                        _ = try home.start()
                        try await client.config.set(2, at: "n")
                        let value = try await updates.next(isolation: #isolation)?.get().value
                        #expect(value == ConfigValue(.int(2), isSecret: false))
                    }
                    #expect((provider.snapshot() as? LarderProviderSnapshot)?.origin == .agent)
                }
            }
        }

        @Test(
            "a provider that starts without the agent and without a file is empty, and follows the agent once it starts"
        )
        func empty() async throws {
            try await AgentHome.with { home in
                try await ProviderFixture.following(home, startup: .optional) { provider in
                    #expect((provider.snapshot() as? LarderProviderSnapshot)?.origin == .empty)
                    _ = try home.start()
                    try await ProviderFixture.client(home).config.set(1, at: "n")
                    try await ProviderFixture.wait(for: 1, at: "n", in: provider)
                }
            }
        }
    }
}
