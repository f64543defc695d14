import LarderConfigModel
import LarderJSON
import LarderPlatform
import LarderUpstream
import NIOPosix
import Synchronization
import TestSupport
import Testing

@testable import LarderConfigSources

@Suite("Start of an event stream", .timeLimit(.minutes(15)))
struct StreamStartTests {
    private static let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    private static let document: RawOrigin.Answer = [
        .send("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"v\":1}"), .close,
    ]

    /// The requests that an origin has received, and whether it responds to those for the stream.
    private final class Requests: Sendable {
        private let counts = Mutex((streams: 0, polls: 0))
        private let numbers = Mutex<Set<Int>>([])
        let answersStreams = Mutex(true)

        var streams: Int { counts.withLock { $0.streams } }
        var polls: Int { counts.withLock { $0.polls } }

        /// Counts a request. The script of an origin is called more than once for a request that has to wait.
        func count(_ number: Int, isPoll: Bool) {
            guard numbers.withLock({ $0.insert(number).inserted }) else { return }
            counts.withLock { if isPoll { $0.polls += 1 } else { $0.streams += 1 } }
        }
    }

    /// Runs `body` with a source of an origin whose streams begin with `{"v":1}`, unless they are polled.
    private func withSource(
        isPolled: Bool = false, refusal: RawOrigin.Answer = .hang,
        _ body: (SSESource, RawOrigin, Requests, ManualClock) async throws -> Void
    ) async throws {
        let requests = Requests()
        let script: RawOrigin.Script = { number, text in
            let isPoll = text.hasPrefix("GET /config.json ")
            requests.count(number, isPoll: isPoll)
            if isPoll { return Self.document }
            guard requests.answersStreams.withLock({ $0 }) else { return refusal }
            return [.send(Self.head + (isPolled ? ": connected\n\n" : "data: {\"v\":1}\n\n"))]
        }
        try await RawOrigin.serve(script) { origin in
            let clock = ManualClock()
            let fetcher = HTTPFetcher(configuration: .init(version: "1", connectTimeout: .seconds(300)))
            let source = SSESource(
                configuration: .init(
                    url: origin.url, pollURL: isPolled ? origin.url + "config.json" : nil,
                    heartbeat: .seconds(7_200), timeout: .seconds(7_200)),
                plan: ReconnectPlan(window: .seconds(30), firstFetchWindow: .seconds(2), seed: "a"), fetcher: fetcher,
                blocking: BlockingThreadPool(.singleton), clock: clock, generator: SeededGenerator(seed: 1))
            try await body(source, origin, requests, clock)
            await fetcher.shutdown()
        }
    }

    private func value(_ answer: SourceResponse) throws -> JSONValue {
        guard case .document(let document) = answer else { throw HarnessError("no document") }
        return document.value
    }

    /// Sends a patch over the stream, and waits until the source delivers the document.
    private func expectDelivery(_ documents: SourceDocuments, _ origin: RawOrigin) async throws {
        origin.send("event: patch\ndata: {\"v\":2}\n\n")
        for await delivery in documents where try value(delivery.result.get()) == ["v": 2] { return }
        throw HarnessError("the source delivered no patch")
    }

    @Test("a consumer keeps the connection of a fetch that began before it")
    func takeover() async throws {
        try await withSource { source, origin, requests, _ in
            requests.answersStreams.withLock { $0 = false }
            let fetch = Task { try value(await source.fetch(ifChangedFrom: nil, reason: .requested)) }
            for await event in origin.events { if case .request = event { break } }
            let documents = try #require(source.documents(after: .seconds(60)) { nil })
            requests.answersStreams.withLock { $0 = true }
            // Setting the answer to any path makes the origin respond to the requests that wait.
            origin.answer(.hang, to: "/other")
            #expect(try await fetch.value == ["v": 1])
            try await expectDelivery(documents, origin)
            #expect(requests.streams == 1)
        }
    }

    @Test("a consumer that is slower than the stream gets the newest document with all patches applied")
    func slowConsumer() async throws {
        try await withSource { source, origin, _, _ in
            let documents = try #require(source.documents(after: .zero) { nil })
            for await delivery in documents where try value(delivery.result.get()) == ["v": 1] { break }
            for number in 0..<100 { origin.send("event: patch\ndata: {\"n\(number)\":\(number)}\n\n") }
            while source.state.withLock({ $0.documents.newest?.value.count }) != 101 { await Task.yield() }
            origin.send("event: patch\ndata: {\"n5\":null}\n\n")
            var deliveries = 0
            for await delivery in documents {
                let document = try value(delivery.result.get())
                #expect(document.count >= 100, "the consumer skips to the newest document")
                #expect((0..<100).allSatisfy { $0 == 5 || document["n\($0)"] == .int($0) })
                deliveries += 1
                if document.count == 100 { break }
            }
            #expect(deliveries <= 3)
        }
    }

    @Test("a fetch ends the wait before the first connection, and the source then follows changes")
    func wait() async throws {
        try await withSource { source, origin, requests, clock in
            let documents = try #require(source.documents(after: .seconds(60)) { nil })
            await clock.waitForSleepers(1)
            #expect(try value(await source.fetch(ifChangedFrom: nil, reason: .requested)) == ["v": 1])
            try await expectDelivery(documents, origin)
            #expect(requests.streams == 1)
        }
    }

    @Test("the connections end when the sequence of documents is released without being read")
    func released() async throws {
        try await withSource { source, _, _, _ in
            do {
                let documents = source.documents(after: .seconds(60)) { nil }
                #expect(source.state.withLock { $0.hasConsumer })
                withExtendedLifetime(documents) {}
            }
            #expect(source.state.withLock { !$0.hasConsumer })
        }
    }

    @Test("with a poll URL, a fetch during the wait opens the stream, which polls the document once")
    func polledWait() async throws {
        try await withSource(isPolled: true) { source, origin, requests, clock in
            let documents = try #require(source.documents(after: .seconds(60)) { nil })
            await clock.waitForSleepers(1)
            #expect(try value(await source.fetch(ifChangedFrom: nil, reason: .requested)) == ["v": 1])
            try await expectDelivery(documents, origin)
            #expect(requests.streams == 1)
            #expect(requests.polls == 1)
        }
    }

    @Test("if the stream fails and a poll succeeds, the source reports that it does not follow changes")
    func streamFails() async throws {
        let refusal: RawOrigin.Answer = [.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), .close]
        try await withSource(isPolled: true, refusal: refusal) { source, origin, requests, _ in
            requests.answersStreams.withLock { $0 = false }
            let documents = try #require(source.documents(after: .zero) { nil })
            #expect(try value(await source.fetch(ifChangedFrom: nil, reason: .requested)) == ["v": 1])
            #expect(source.following.failure?.message.contains("503") == true)
            requests.answersStreams.withLock { $0 = true }
            // This fetch ends the pause after the failure.
            #expect(try value(await source.fetch(ifChangedFrom: nil, reason: .requested)) == ["v": 1])
            #expect(source.following.failure == nil)
            try await expectDelivery(documents, origin)
        }
    }
}
