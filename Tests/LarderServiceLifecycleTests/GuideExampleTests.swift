import LarderServiceLifecycle
import LarderTesting
import Synchronization
import Testing

/// An example of a document that follows the configuration at `search`, as `contrib/check-examples.py` extracts it.
struct GuideExample: Sendable, CustomTestStringConvertible {
    let name: String
    let run: @Sendable () async throws -> Void

    init(_ name: String, _ run: @escaping @Sendable () async throws -> Void) { (self.name, self.run) = (name, run) }

    var testDescription: String { name }
}

/// The client, the output and the server of an example that runs.
struct ExampleRun: Sendable {
    @TaskLocal static var current = ExampleRun(client: LarderClient())

    let client: LarderClient
    let output: Output
    let server: Server

    init(client: LarderClient) {
        self.client = client
        output = Output()
        server = Server(output: output)
    }

    struct Search: Codable, Sendable, Equatable {
        var limit = 10
        var hosts: [String] = []
    }

    /// The program of the example.
    actor Server {
        private let output: Output

        init(output: Output) { self.output = output }

        func apply(_ search: Search) throws { output.use(search.limit) }
        func setLimit(_ limit: Int) { output.use(limit) }
    }

    /// The output of an example, and the values that it applied.
    final class Output: Sendable {
        private struct State {
            var limit: Int?
            var errors = 0
            var observed: (@Sendable () async -> Int)?
            var end: Result<Void, any Error>?
        }

        private let state = Mutex(State())

        /// The limit that the example uses; nil before it uses one.
        func limit() async -> Int? {
            guard let observed = state.withLock({ $0.observed }) else { return state.withLock { $0.limit } }
            return await observed()
        }

        /// The number of values that the example could not use.
        var errors: Int { state.withLock { $0.errors } }

        /// Throws if the example has ended.
        func checkRunning() throws {
            guard let end = state.withLock({ $0.end }) else { return }
            try end.get()
            throw EndedExample()
        }

        func use(_ limit: Int) { state.withLock { $0.limit = limit } }
        func observe(_ limit: @escaping @Sendable () async -> Int) { state.withLock { $0.observed = limit } }
        func finish(_ end: Result<Void, any Error>) { state.withLock { $0.end = end } }

        /// Records a line such as `at most 10 results`, or the error of a value that cannot be decoded.
        func add(_ text: String) {
            state.withLock { state in
                if text.contains("cannot decode") { state.errors += 1 }
                if let match = text.firstMatch(of: /at most (\d+)/) { state.limit = Int(match.1) }
            }
        }
    }

    struct EndedExample: Error {}
}

@Suite("Examples of the guides that follow the configuration", .timeLimit(.minutes(15)))
struct GuideExampleTests {
    @Test(
        "an example uses its default on a fresh agent, keeps the last good value, and survives a restart of the agent",
        arguments: guideExamples)
    func follow(_ example: GuideExample) async throws {
        let agent = try await TestAgent()
        let config = agent.client().config
        let run = ExampleRun(client: agent.client())
        let output = run.output
        let running = Task {
            do {
                try await ExampleRun.$current.withValue(run) { try await example.run() }
                output.finish(.success(()))
            } catch {
                output.finish(.failure(error))
            }
        }
        func waitUntil(_ condition: () async throws -> Bool) async throws {
            try await agent.waitUntil {
                try output.checkRunning()
                return try await condition()
            }
        }

        try await waitUntil { await output.limit() == 10 }
        for limit in [25, 30] {
            let errors = output.errors
            let lastGood = await output.limit()
            try await config.set("x", at: "search.limit")
            try await waitUntil { output.errors > errors }
            #expect(await output.limit() == lastGood)
            try await config.set(.int(limit), at: "search.limit")
            try await waitUntil { await output.limit() == limit }
        }
        try await agent.restart()
        try await config.set(40, at: "search.limit")
        try await waitUntil {
            // The clients wait before they connect again.
            agent.clock.advance(by: .milliseconds(50))
            return await output.limit() == 40
        }
        running.cancel()
        await running.value
    }

    @Test("the guides have examples that follow the configuration")
    func count() { #expect(guideExamples.count >= 5) }
}
