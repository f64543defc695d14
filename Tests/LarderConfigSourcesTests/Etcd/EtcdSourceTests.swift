import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderUpstream
import Logging
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("etcd source")
struct EtcdSourceTests {
    private func source(_ endpoint: String, _ fetcher: HTTPFetcher) -> EtcdSource {
        let settings = EtcdSourceSettings(endpoints: [endpoint], keys: .prefix("/a/"))
        let clock = ManualClock()
        let client = EtcdClient(
            settings, fetcher: fetcher, blocking: BlockingThreadPool(.singleton), startingAt: 0, clock: clock)
        return EtcdSource(
            settings, client: client,
            plan: ReconnectPlan(window: .seconds(30), firstFetchWindow: .seconds(2), seed: "a"), clock: clock,
            generator: SeededGenerator(seed: 1), logger: Logger(label: "test"))
    }

    private static func response(_ status: String, _ body: String) -> RawOrigin.Answer {
        [.send("HTTP/1.1 \(status)\r\nConnection: close\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"), .close]
    }

    private static let header = #""header":{"cluster_id":"1","member_id":"1","revision":"5","raft_term":"1"}"#
    /// The only key is /a/b, and its value 1.
    private static let page =
        "{\(header)," + #""kvs":[{"key":"L2EvYg==","mod_revision":"5","value":"MQ=="}],"count":"1"}"#
    private static let createdWatch: RawOrigin.Answer = [
        .send("HTTP/1.1 200 OK\r\n\r\n{\"result\":{\(header),\"created\":true}}\n")
    ]

    @Test("the source delivers a document of its keys, and confirms it if the current document has its validator")
    func deliveries() async throws {
        let watch = Mutex(RawOrigin.Answer.hang)
        let script: RawOrigin.Script = { _, text in
            text.hasPrefix("POST /v3/watch ") ? watch.withLock { $0 } : Self.response("200 OK", Self.page)
        }
        try await RawOrigin.serve(script) { origin in
            let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
            let source = source(origin.url, fetcher)
            let current = Mutex<SourceDocument?>(nil)
            let documents = try #require(source.documents(after: .seconds(60)) { current.withLock { $0?.validator } })
            _ = try await source.fetch(ifChangedFrom: nil, reason: .requested)
            for await delivery in documents {
                guard case .document(let document) = try delivery.result.get() else { continue }
                current.withLock { $0 = document }
                break
            }
            #expect(current.withLock { $0?.value } == ["b": 1])
            #expect(current.withLock { $0?.version?.text } == "5")
            watch.withLock { $0 = Self.createdWatch }
            // Setting the answer to any path makes the origin respond to the requests that wait.
            origin.answer(.hang, to: "/other")
            for await delivery in documents {
                guard case .notModified = try delivery.result.get() else { continue }
                break
            }
            withExtendedLifetime(documents) {}
            await fetcher.shutdown()
        }
    }

    @Test("while no watch can be opened, reads succeed, and the source reports that it does not follow the keys")
    func watchFails() async throws {
        let watch = Mutex(Self.response("503 Busy", ""))
        let script: RawOrigin.Script = { _, text in
            text.hasPrefix("POST /v3/watch ") ? watch.withLock { $0 } : Self.response("200 OK", Self.page)
        }
        try await RawOrigin.serve(script) { origin in
            let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
            let source = source(origin.url, fetcher)
            let documents = try #require(source.documents(after: .seconds(60)) { nil })
            #expect(source.following.isConnecting)
            _ = try await source.fetch(ifChangedFrom: nil, reason: .requested)
            for await _ in documents where source.following.failure != nil { break }
            // The next read opens another watch, to which the origin does not respond yet.
            watch.withLock { $0 = .hang }
            _ = try await source.fetch(ifChangedFrom: nil, reason: .requested)
            #expect(source.following.failure?.message.contains("503") == true)
            watch.withLock { $0 = Self.createdWatch }
            // Setting the answer to any path makes the origin respond to the requests that wait.
            origin.answer(.hang, to: "/other")
            for await _ in documents where source.following.failure == nil { break }
            #expect(!source.following.isConnecting)
            withExtendedLifetime(documents) {}
            await fetcher.shutdown()
        }
    }

    @Test("the wait before the first watch begins before a fetch can end it")
    func wait() async throws {
        let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
        let source = source("http://127.0.0.1:1", fetcher)
        let documents = source.documents(after: .seconds(60)) { nil }
        guard case .pause(let time) = source.state.withLock({ $0.follower.step.task }) else {
            Issue.record("the source does not wait")
            return
        }
        #expect(time >= .seconds(60))
        withExtendedLifetime(documents) {}
        await fetcher.shutdown()
    }
}
