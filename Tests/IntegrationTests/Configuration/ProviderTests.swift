import Configuration
import ConfigurationLarder
import ConfigurationTesting
import LarderClient
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Provider for swift-configuration", .timeLimit(.minutes(30)))
    struct ProviderTests {
        /// The values that ``ProviderCompatTest`` expects.
        private static let expected: JSONValue = [
            "string": "Hello", "int": 42, "double": 3.14, "bool": true, "bytes": "bWFnaWM=",
            "stringy": ["array": ["Hello", "World"]], "inty": ["array": [42, 24]], "doubly": ["array": [3.14, 2.72]],
            "booly": ["array": [true, false]], "byteChunky": ["array": ["bWFnaWM=", "bWFnaWMy"]],
            "other": [
                "string": "Other Hello", "int": 24, "double": 2.72, "bool": false, "bytes": "bWFnaWMy",
                "stringy": ["array": ["Hello", "Swift"]], "inty": ["array": [16, 32]],
                "doubly": ["array": [0.9, 1.8]], "booly": ["array": [false, true, true]],
                "byteChunky": ["array": ["bWFnaWM=", "bWFnaWMy", "bWFnaWM="]],
            ],
        ]

        @Test("the provider passes the compatibility test of swift-configuration")
        func compatibility() async throws {
            try await AgentHome.with(starting: true) { home in
                try await ProviderFixture.client(home).config.replaceAll(with: Self.expected)
                try await ProviderCompatTest(provider: ProviderFixture.provider(home)).runTest()
            }
        }

        @Test("a watch of an integer gets the current value, then one value for each change of the value")
        func watchInt() async throws {
            try await AgentHome.with(starting: true) { home in
                let client = ProviderFixture.client(home)
                try await client.config.set(1, at: "n")
                try await ProviderFixture.following(home) { provider in
                    let config = ConfigReader(provider: provider)
                    try await config.watchInt(forKey: "n") { updates in
                        var updates = updates.makeAsyncIterator()
                        #expect(await updates.next(isolation: #isolation) == 1)
                        for number in 2...20 {
                            try await client.config.set(.int(number), at: "elsewhere")
                            try await client.config.set(.int(number), at: "n")
                            #expect(await updates.next(isolation: #isolation) == number)
                            // The same value once more, and in another notation, is no change.
                            try await client.config.set(.int(number), at: "n")
                            try await client.config.set(try JSONValue(parsing: Array("\(number).0".utf8)), at: "n")
                        }
                        try await client.config.unset(at: "n")
                        #expect(await updates.next(isolation: #isolation) == .some(nil))
                    }
                }
            }
        }

        @Test("watches of Booleans and arrays get one value for each change of the value")
        func watchOthers() async throws {
            try await AgentHome.with(starting: true) { home in
                let client = ProviderFixture.client(home)
                try await client.config.replaceAll(with: ["on": true, "list": [1, 2], "names": ["a"]])
                try await ProviderFixture.following(home) { provider in
                    let config = ConfigReader(provider: provider)
                    try await config.watchBool(forKey: "on", default: false) { updates in
                        var updates = updates.makeAsyncIterator()
                        #expect(await updates.next(isolation: #isolation) == true)
                        for isOn in [false, true, false] {
                            try await client.config.set(["x"], at: "names")
                            try await client.config.set(.bool(isOn), at: "on")
                            #expect(await updates.next(isolation: #isolation) == isOn)
                        }
                    }
                    try await config.watchIntArray(forKey: "list", default: []) { updates in
                        var updates = updates.makeAsyncIterator()
                        #expect(await updates.next(isolation: #isolation) == [1, 2])
                        for list in [[1], [], [3, 4, 5]] {
                            try await client.config.set(.bool(list.isEmpty), at: "on")
                            try await client.config.set(.array(list.map(JSONValue.int)), at: "list")
                            #expect(await updates.next(isolation: #isolation) == list)
                        }
                    }
                    try await config.watchStringArray(forKey: "names", default: []) { updates in
                        var updates = updates.makeAsyncIterator()
                        #expect(await updates.next(isolation: #isolation) == ["x"])
                        try await client.config.set(["x", "y"], at: "names")
                        #expect(await updates.next(isolation: #isolation) == ["x", "y"])
                    }
                }
            }
        }

        @Test("a value of another kind is an error for its watch, which continues with the next value")
        func watchError() async throws {
            try await AgentHome.with(starting: true) { home in
                let client = ProviderFixture.client(home)
                try await client.config.set(1, at: "n")
                try await ProviderFixture.following(home) { provider in
                    try await provider.watchValue(forKey: "n", type: .int) { updates in
                        var updates = updates.makeAsyncIterator()
                        #expect(try await updates.next(isolation: #isolation)?.get().value?.content == .int(1))
                        try await client.config.set("text", at: "n")
                        let failure = try #require(await updates.next(isolation: #isolation))
                        let error = try #require(throws: LarderProviderError.self) { try failure.get() }
                        #expect(error.code == .typeMismatch && error.key == "n")
                        try await client.config.set(2, at: "n")
                        #expect(try await updates.next(isolation: #isolation)?.get().value?.content == .int(2))
                    }
                }
            }
        }

        @Test("members whose names contain dots are different from nested members")
        func dots() async throws {
            try await AgentHome.with(starting: true) { home in
                try await ProviderFixture.client(home).config.replaceAll(with: ["a.b": 1, "a": ["b": 2]])
                let config = ConfigReader(provider: try await ProviderFixture.provider(home))
                #expect(config.int(forKey: ["a.b"]) == 1 && config.int(forKey: ["a", "b"]) == 2)
                #expect(try await config.fetchInt(forKey: ["a.b"]) == 1)
                #expect(try await config.fetchInt(forKey: ["a", "b"]) == 2)
            }
        }

        @Test("values that the agent's settings declare as secrets are secret")
        func secrets() async throws {
            let settings = "{ namespaces: { default: { secrets: ['db.password', '**.token'] } } }"
            try await AgentHome.with(settings: settings, starting: true) { home in
                try await ProviderFixture.client(home).config.replaceAll(
                    with: ["db": ["password": "p", "port": 5432], "api": ["x": ["token": "t"]]])
                let provider = try await LarderProvider(
                    client: ProviderFixture.client(home), secretsSpecifier: .specific(["db.port"]))
                func isSecret(_ key: AbsoluteConfigKey, _ type: ConfigType) throws -> Bool? {
                    try provider.value(forKey: key, type: type).value?.isSecret
                }
                #expect(try isSecret("db.password", .string) == true)
                #expect(try isSecret("api.x.token", .string) == true)
                #expect(try isSecret("db.port", .int) == true)
                let plain = try await ProviderFixture.provider(home)
                #expect(try plain.value(forKey: "db.port", type: .int).value?.isSecret == false)
                #expect(try await plain.fetchValue(forKey: "db.password", type: .string).value?.isSecret == true)
            }
        }

        /// Reads the two numbers of each writer, which are the same except for the sign. Returns the first ones.
        private static func numbers(_ snapshot: any ConfigSnapshot, writers: Int) throws -> [Int] {
            try (0..<writers).map { writer in
                let pair = try ["first", "second"].map { name -> Int in
                    let key = AbsoluteConfigKey(["writer\(writer)", name])
                    guard case .int(let number) = try snapshot.value(forKey: key, type: .int).value?.content else {
                        throw HarnessError("no number at \(key)")
                    }
                    return number
                }
                #expect(pair[0] == -pair[1])
                return pair[0]
            }
        }

        @Test("values of one snapshot never mix while other clients change pairs of values together at a high rate")
        func consistent() async throws {
            let settings = "{ namespaces: { default: { durability: 'relaxed' } } }"
            try await AgentHome.with(settings: settings, starting: true) { home in
                let (writers, changes) = (10, 100)
                let client = ProviderFixture.client(home)
                @Sendable func change(_ writer: Int, _ number: Int) async throws {
                    try await client.config.apply { change in
                        change.set(.int(number), at: "writer\(writer).first")
                        change.set(.int(-number), at: "writer\(writer).second")
                    }
                }
                for writer in 0..<writers { try await change(writer, 0) }
                try await ProviderFixture.following(home) { provider in
                    try await withThrowingTaskGroup { group in
                        for writer in 0..<writers {
                            group.addTask { for number in 1...changes { try await change(writer, number) } }
                        }
                        try await provider.watchSnapshot { updates in
                            var last = [Int](repeating: 0, count: writers)
                            for await snapshot in updates {
                                let numbers = try Self.numbers(snapshot, writers: writers)
                                #expect(zip(last, numbers).allSatisfy { $0 <= $1 })
                                last = numbers
                                for _ in 1...10 { _ = try Self.numbers(provider.snapshot(), writers: writers) }
                                if numbers.allSatisfy({ $0 == changes }) { break }
                            }
                        }
                        try await group.waitForAll()
                    }
                }
            }
        }

        @Test("a namespace that the settings do not declare is an error at the start, without a retry")
        func unknownNamespace() async throws {
            try await AgentHome.with(starting: true) { home in
                let error = await #expect(throws: LarderProviderError.self) {
                    try await ProviderFixture.provider(home, namespace: "nowhere")
                }
                #expect(error?.code == .startFailed)
                #expect(error?.clientError?.remoteError?.code == .unknownNamespace)
            }
        }
    }
}
