import LarderJSON
import LarderUpstream
import Synchronization
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources

@Suite("SSE document reader")
struct SSEDocumentReaderTests {
    private let reader: SSEDocumentReader

    init() {
        var settings = SSESourceSettings(url: "http://h/events")
        settings.patchEvents = ["patch", "delta"]
        settings.versionPath = JSONPath(["version"])
        settings.maximumBytes = 100
        reader = SSEDocumentReader(settings: settings)
    }

    private func document(_ type: String, _ data: String, from base: JSONValue? = nil) throws -> SourceDocument? {
        try reader.document(after: .init(type: type, data: Array(data.utf8)), from: base)
    }

    @Test("an event of the default type is a whole document with a version")
    func whole() throws {
        let document = try document("message", #"{"version":7,"a":null}"#, from: ["b": 1])
        #expect(document?.value == ["version": 7, "a": .null])
        #expect(document?.version == UpstreamVersion("7"))
        #expect(document?.validator == nil)
    }

    @Test("a patch changes the previous document", arguments: ["patch", "delta"])
    func patch(_ type: String) throws {
        let document = try document(
            type, #"{"version":8,"a":{"b":null,"c":3}}"#, from: ["version": 7, "a": ["b": 1, "d": 4], "n": .null])
        #expect(document?.value == ["version": 8, "a": ["c": 3, "d": 4], "n": .null])
        #expect(document?.version == UpstreamVersion("8"))
    }

    @Test("events of a type other than message and patch are skipped", arguments: ["ping", "Patch", "messages"])
    func others(_ type: String) throws {
        #expect(try document(type, "{}", from: ["a": 1]) == nil)
        #expect(try document(type, "garbage") == nil)
    }

    @Test(
        "an invalid event is rejected, and the error contains the reason",
        arguments: [
            ("message", "", "comment"), ("message", "[]", "array"), ("message", "{", "not JSON"),
            ("message", "null", "null"), ("patch", "[]", "array"), ("patch", "3", "number"), ("patch", "{", "not JSON"),
            ("patch", #"{"a":"\#(String(repeating: "x", count: 100))"}"#, "100 bytes"),
        ])
    func refused(_ type: String, _ data: String, _ word: String) {
        let error = #expect(throws: ConfigError.self) { try document(type, data, from: ["a": 1]) }
        #expect(error?.code == .rejected)
        #expect(error?.message.hasPrefix("http://h/events ") == true)
        #expect(error?.message.contains(word) == true, "\(error?.message ?? "")")
    }

    @Test("a patch is rejected if no whole document precedes it")
    func patchFirst() {
        let error = #expect(throws: ConfigError.self) { try document("patch", "{}") }
        #expect(error?.code == .rejected)
        #expect(error?.message.contains("before any whole document") == true)
    }
}

@Suite("SSE stream state")
struct SSEStreamStateTests {
    private let failure = ConfigError(.upstreamFailed, "broken")

    /// Returns the state of a stream with one consumer, whose connection is being established.
    private static func connected() -> (state: SSEStreamState, consumer: Int, signals: AsyncStream<Void>) {
        var state = SSEStreamState()
        let (signals, signal) = AsyncStream.makeStream(of: Void.self)
        let consumer = state.add(signal)
        _ = state.connecting(for: consumer)
        return (state, consumer, signals)
    }

    private func value(_ result: Result<SourceResponse, ConfigError>?) throws -> JSONValue? {
        guard case .document(let document) = try result?.get() else { return nil }
        return document.value
    }

    @Test("a document that was received before the connection failed is delivered before the failure")
    func order() throws {
        var (state, consumer, _) = Self.connected()
        #expect(state.delivery().delivery == nil)
        #expect(state.deliver(SourceDocument(value: ["v": 1]), after: 0, for: consumer)?.signal != nil)
        #expect(state.fail(failure, for: consumer).signal != nil)
        let first = state.delivery()
        #expect(try value(first.delivery?.result) == ["v": 1])
        #expect(first.effects.signal != nil, "the failure is not delivered yet")
        let second = state.delivery()
        #expect(throws: failure) { try second.delivery?.result.get() }
        #expect(second.effects.signal == nil)
        #expect(state.deliver(nil, after: state.documents.count, for: consumer)?.signal != nil)
        #expect(try value(state.delivery().delivery?.result) == ["v": 1])
    }

    @Test("deliveries and polls have increasing orders, and a confirmed document keeps its own")
    func orders() {
        var (state, consumer, _) = Self.connected()
        #expect(state.fetchOrder == nil)
        _ = state.deliver(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
        #expect(state.delivery().delivery?.order == 1)
        _ = state.deliver(nil, after: 1, for: consumer)
        #expect(state.delivery().delivery?.order == 1)
        _ = state.accept(nil, requestedAt: state.documents.deliveries)
        #expect(state.fetchOrder == 1)
        _ = state.accept(SourceDocument(value: ["v": 2]), requestedAt: state.documents.deliveries)
        #expect(state.fetchOrder == 2)
    }

    @Test("a document that the stream delivers during a poll replaces the response, unless the document is older")
    func race() throws {
        var (state, consumer, _) = Self.connected()
        let cases: [(String?, String?, Int)] = [(nil, nil, 2), ("5", "6", 2), ("6", "5", 3), ("a", "b", 2)]
        for (polled, delivered, expected) in cases {
            let deliveries = state.documents.deliveries
            _ = state.deliver(
                SourceDocument(value: ["v": 2], version: delivered.map(UpstreamVersion.init)),
                after: state.documents.count,
                for: consumer)
            let answer = SourceDocument(value: ["v": 3], version: polled.map(UpstreamVersion.init))
            #expect(
                try value(.success(state.accept(answer, requestedAt: deliveries).answer))
                    == ["v": JSONValue(integerLiteral: expected)])
            #expect(state.documents.newest?.value == ["v": JSONValue(integerLiteral: expected)])
            _ = state.ended(for: consumer)
            _ = state.connecting(for: consumer)
        }
        let answer = state.accept(SourceDocument(value: ["v": 4]), requestedAt: state.documents.deliveries).answer
        #expect(try value(.success(answer)) == ["v": 4])
        guard case .notModified = state.accept(nil, requestedAt: state.documents.deliveries).answer else {
            return #expect(Bool(false), "expected notModified")
        }
    }

    @Test("a poll response that differs from the newest document interrupts the connection of the stream")
    func difference() throws {
        var (state, consumer, _) = Self.connected()
        _ = state.began(Task { nil }, isPause: false, for: consumer)
        _ = state.deliver(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
        #expect(
            state.accept(SourceDocument(value: ["v": 1]), requestedAt: state.documents.deliveries).interrupted == nil)
        #expect(
            state.deliver(SourceDocument(value: ["v": 2]), after: state.documents.count, for: consumer)?.signal != nil)

        #expect(
            state.accept(SourceDocument(value: ["v": 5]), requestedAt: state.documents.deliveries).interrupted != nil)
        #expect(
            state.deliver(SourceDocument(value: ["v": 3]), after: state.documents.count, for: consumer)?.signal == nil)
        #expect(state.documents.newest?.value == ["v": 5])
        let isFollowed = state.ended(for: consumer)
        #expect(isFollowed, "the connection was interrupted")
        _ = state.connecting(for: consumer)
        #expect(
            state.deliver(SourceDocument(value: ["v": 6]), after: state.documents.count, for: consumer)?.signal != nil)
    }

    @Test("a connection resumes only from the newest document, and resuming counts as the delivery of a document")
    func requestBefore() {
        var (state, consumer, _) = Self.connected()
        let (mark, deliveries) = (state.documents.count, state.documents.deliveries)
        _ = state.accept(SourceDocument(value: ["v": 1]), requestedAt: deliveries)
        #expect(state.deliver(nil, after: mark, for: consumer) == nil)
        #expect(state.deliver(nil, after: state.documents.count, for: consumer)?.signal != nil)
        #expect(state.documents.deliveries != deliveries, "the resumption counts as a delivery")
    }

    @Test("a connection does not resume after an ID that is not a valid header value")
    func unusableIDs() {
        var (state, consumer, _) = Self.connected()
        _ = state.deliver(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
        for (id, isSent) in [
            (String(repeating: "i", count: 4096), true), (String(repeating: "i", count: 4097), false), ("é", true),
            ("a\u{1}b", false), (" a", false),
        ] {
            state.remember(id, nil, for: consumer)
            #expect(state.connecting(for: consumer) == (isSent ? id : nil))
        }
    }

    @Test("a connection does not resume if the whole document is polled from another URL")
    func elsewhere() {
        var (state, consumer, _) = Self.connected()
        _ = state.deliver(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
        state.remember("7", nil, for: consumer)
        #expect(state.connecting(for: consumer, pollsDocument: true) == nil)
        #expect(state.connecting(for: consumer) == "7")
    }

    @Test("a patch for an older document is not accepted")
    func mark() {
        var (state, consumer, _) = Self.connected()
        let mark = state.documents.count
        _ = state.accept(SourceDocument(value: ["v": 1]), requestedAt: state.documents.deliveries)
        #expect(state.deliver(SourceDocument(value: ["v": 2]), after: mark, for: consumer) == nil)
        #expect(state.deliver(SourceDocument(value: ["v": 2]), after: state.documents.count, for: consumer) != nil)
    }

    @Test("a connection resumes after the last event, but not after an invalid one")
    func resumption() {
        var (state, consumer, _) = Self.connected()
        _ = state.deliver(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
        #expect(state.connecting(for: consumer) == nil, "the origin sent no ID")
        _ = state.deliver(SourceDocument(value: ["v": 1]), after: state.documents.count, for: consumer)
        state.remember("7", .seconds(2), for: consumer)
        #expect(state.connecting(for: consumer) == "7")
        #expect(state.retry == .seconds(2))
        _ = state.fail(failure, for: consumer)
        #expect(state.connecting(for: consumer) == "7")
        _ = state.fail(ConfigError(.rejected, "nonsense"), for: consumer)
        #expect(state.connecting(for: consumer) == nil)
    }

    @Test("events on the connection of a previous consumer do not change the state")
    func previous() {
        var (state, old, _) = Self.connected()
        let (_, signal) = AsyncStream.makeStream(of: Void.self)
        let new = state.add(signal)
        #expect(new != old)
        #expect(state.deliver(SourceDocument(value: ["v": 1]), after: 0, for: old)?.signal == nil)
        #expect(state.documents.newest == nil)
        #expect(state.fail(failure, for: old).signal == nil)
        state.remember("7", nil, for: old)
        #expect(state.lastEventID == "")
    }

    @Test("a fetch that waits gets the document that a poll has confirmed on a new connection")
    func confirmedForFetch() async throws {
        let state = Mutex(Self.connected().state)
        let consumer = state.withLock { $0.consumer }
        state.withLock {
            _ = $0.deliver(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
            _ = $0.ended(for: consumer)
        }
        let result = await withCheckedContinuation { (waiter: SSEStreamState.Waiter) in
            let effects = state.withLock { state in
                _ = state.add(waiter, id: 1)
                _ = state.connecting(for: consumer, pollsDocument: true)
                return state.deliver(nil, after: state.documents.count, for: consumer)
            }
            effects?.carryOut(.success(SourceDocument(value: ["v": 1])))
        }
        #expect(try result.get().value == ["v": 1])
        #expect(state.withLock { $0.isEstablished })
    }

    @Test("a consumer keeps the connections of a fetch, and the end of the fetch does not end them")
    func takeover() {
        var state = SSEStreamState()
        let (_, signal) = AsyncStream.makeStream(of: Void.self)
        func begin(isTemporary: Bool) -> Int? {
            state.begin(signal, isTemporary: isTemporary) { _ in Task {} }?.consumer
        }
        let fetch = begin(isTemporary: true)
        #expect(begin(isTemporary: false) == fetch)
        #expect(begin(isTemporary: true) == nil, "the connections of the consumer serve other fetches")
        let endsWithFetch = state.end(fetch ?? 0, isTemporary: true)
        #expect(!endsWithFetch)
        #expect(state.hasConsumer)
        let endsWithConsumer = state.end(fetch ?? 0, isTemporary: false)
        #expect(endsWithConsumer)
        #expect(!state.hasConsumer)
    }
}

extension SSEStreamState {
    /// Adds a consumer that makes no connections.
    fileprivate mutating func add(_ signal: AsyncStream<Void>.Continuation) -> Int {
        begin(signal, isTemporary: false) { _ in Task {} }?.consumer ?? 0
    }
}
