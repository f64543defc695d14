import Configuration
import LarderClientCore
import Synchronization
import TestSupport
import Testing
import Glibc

@testable import ConfigurationLarder

@Suite("Start without an agent", .timeLimit(.minutes(15)))
struct StartupTests {
    private func client(_ directory: String) -> LarderClient { LarderClient(socket: directory + "/sock") }

    private func write(_ text: String, to path: String) throws {
        let file = try #require(fopen(path, "w"))
        defer { fclose(file) }
        #expect(fputs(text, file) >= 0)
    }

    @Test("an optional agent is replaced by the exported file next to the socket, whose values are secret")
    func exportedFile() async throws {
        try await withTemporaryDirectory { directory in
            #expect(mkdir(directory + "/current", 0o700) == 0)
            try write("{\"search\":{\"limit\":25}}\n", to: directory + "/current/shop.json")
            let provider = try await LarderProvider(client: client(directory), namespace: "shop", startup: .optional)
            let value = try provider.value(forKey: "search.limit", type: .int).value
            #expect(value == ConfigValue(.int(25), isSecret: true))
            let snapshot = try #require(provider.snapshot() as? LarderProviderSnapshot)
            #expect(snapshot.origin == .exportedFile && snapshot.revision == nil)
            #expect("\(provider)" == "LarderProvider[shop][exported file], 0 watchers")
        }
    }

    @Test("the directory of the exported files can be set")
    func otherDirectory() async throws {
        try await withTemporaryDirectory { directory in
            try write("{\"a\":1}", to: directory + "/default.json")
            let provider = try await LarderProvider(
                client: client(directory), startup: .optional, currentDirectory: directory)
            #expect(try provider.value(forKey: "a", type: .int).value?.content == .int(1))
        }
    }

    @Test("without a readable exported file, an optional agent leaves the provider empty", arguments: [nil, "[]", "{"])
    func empty(text: String?) async throws {
        try await withTemporaryDirectory { directory in
            if let text { try write(text, to: directory + "/default.json") }
            let provider = try await LarderProvider(
                client: client(directory), startup: .optional, currentDirectory: directory)
            #expect(try provider.value(forKey: "a", type: .int).value == nil)
            #expect((provider.snapshot() as? LarderProviderSnapshot)?.origin == .empty)
        }
    }

    @Test("a required agent that is missing is an error after the timeout, with the cause")
    func required() async throws {
        try await withTemporaryDirectory { directory in
            let clock = ManualClock()
            var configuration = LarderClient.Configuration()
            configuration.clock = clock
            let client = LarderClient(socket: directory + "/sock", configuration: configuration)
            let start = Task { try await LarderProvider(client: client, startup: .required(timeout: .seconds(60))) }
            // The timeout, and the delay after the first failed attempt.
            await clock.waitForSleepers(2)
            clock.advance(by: .seconds(60))
            let error = await #expect(throws: LarderProviderError.self) { try await start.value }
            #expect(error?.code == .startFailed && error?.key == nil)
            #expect(error?.clientError?.code == .unreachable)
            #expect(error?.reason.contains(client.socket) == true)
        }
    }

    @Test("a timeout that is not positive is an error at once", arguments: [Duration.zero, .seconds(-1)])
    func invalidTimeout(timeout: Duration) async throws {
        let client = client("/nonexistent")
        let error = await #expect(throws: LarderProviderError.self) {
            try await LarderProvider(client: client, startup: .required(timeout: timeout))
        }
        #expect(error?.code == .startFailed && error?.clientError?.code == .invalidArgument)
        #expect(error?.reason.hasPrefix("timeout must be positive") == true)
    }

    @Test("the interruptions of a start have a mark for repeated errors, as those of a stream")
    func interruptions() async throws {
        try await withTemporaryDirectory { directory in
            let clock = ManualClock()
            var configuration = LarderClient.Configuration()
            configuration.clock = clock
            let client = LarderClient(socket: directory + "/sock", configuration: configuration)
            let (stream, interruptions) = AsyncStream.makeStream(of: ConfigInterruption.self)
            let start = Task {
                try await LarderProvider(
                    client: client, startup: .required(timeout: .seconds(60)),
                    onInterruption: { interruptions.yield($0) })
            }
            var iterator = stream.makeAsyncIterator()
            #expect(await iterator.next()?.isRepeated == false)
            await clock.waitForSleepers(2)
            clock.advance(by: .seconds(10))
            #expect(await iterator.next()?.isRepeated == true)
            start.cancel()
            _ = await start.result
        }
    }

    @Test("the end of an outage is reported once, also if the error of the start and that of the stream are equal")
    func outages() {
        let events = Mutex<[String]>([])
        let report = OutageReport { interruption in
            events.withLock { $0.append(interruption.isRepeated ? "repeated" : "new") }
        } _: {
            events.withLock { $0.append("resumed") }
        }
        report.resumed()
        let error = LarderClientError(.disconnected, "the agent ended")
        for _ in 0..<2 { report.interrupted(ConfigInterruption(error: error)) }
        report.interrupted(ConfigInterruption(error: LarderClientError(.timeout, "no reply")))
        for _ in 0..<2 { report.resumed() }
        report.interrupted(ConfigInterruption(error: error))
        #expect(events.withLock(\.self) == ["new", "repeated", "new", "resumed", "new"])
    }

    @Test("a start whose task is cancelled fails with the cause `cancelled`, not as a timeout")
    func cancelledStart() async throws {
        try await withTemporaryDirectory { directory in
            let client = client(directory)
            let start = Task { try await LarderProvider(client: client, startup: .required(timeout: .seconds(3600))) }
            start.cancel()
            let error = await #expect(throws: LarderProviderError.self) { try await start.value }
            #expect(error?.code == .startFailed && error?.clientError?.code == .cancelled)
        }
    }

    @Test("a fetch without an agent is an error that names the key; a read and a watch use the last snapshot")
    func away() async throws {
        try await withTemporaryDirectory { directory in
            try write("{\"a\":{\"b\":1}}", to: directory + "/default.json")
            let provider = try await LarderProvider(
                client: client(directory), startup: .optional, currentDirectory: directory)
            let error = await #expect(throws: LarderProviderError.self) {
                try await provider.fetchValue(forKey: ["a", "b"], type: .int)
            }
            #expect(error?.code == .fetchFailed && error?.key == "a.b" && error?.clientError?.code == .unreachable)
            let first = try await provider.watchValue(forKey: ["a", "b"], type: .int) { updates in
                for await update in updates { return try update.get().value?.content }
                return nil
            }
            #expect(first == .int(1))
        }
    }

    @Test("a second run of a provider throws while the first one runs; a run ends when its task is cancelled")
    func secondRun() async throws {
        try await withTemporaryDirectory { directory in
            let clock = ManualClock()
            var configuration = LarderClient.Configuration()
            configuration.clock = clock
            let client = LarderClient(socket: directory + "/sock", configuration: configuration)
            let provider = try await LarderProvider(client: client, startup: .optional)
            for _ in 1...2 {
                let running = Task { try await provider.run() }
                // The delay after the first failed attempt.
                await clock.waitForSleepers(1)
                let error = await #expect(throws: LarderProviderError.self) { try await provider.run() }
                #expect(error?.code == .alreadyRunning && error?.reason.contains("LarderProvider[default]") == true)
                running.cancel()
                try await running.value
            }
        }
    }

    @Test("watches end when their task is cancelled")
    func cancelled() async throws {
        try await withTemporaryDirectory { directory in
            let provider = try await LarderProvider(client: client(directory), startup: .optional)
            let task = Task {
                var count = 0
                try await provider.watchSnapshot { updates in
                    for await _ in updates { count += 1 }
                }
                return count
            }
            task.cancel()
            #expect(try await task.value <= 1)
        }
    }

    @Test(
        "the default directory of the exported files is next to the socket",
        arguments: [
            ("/run/larder/larder.sock", "/run/larder/current"), ("larder.sock", "current"), ("/sock", "/current"),
            ("@larder", nil),
        ])
    func defaultDirectory(socket: String, directory: String?) {
        #expect(ExportedFile.defaultDirectory(nextTo: socket) == directory)
    }
}
