import LarderJSON
import LarderUpstream
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources

@Suite("What the events of a stream make of a document")
struct StreamedDocumentTests {
    private let reading = StreamedDocument(
        location: "http://h/events", patchEvents: ["patch", "delta"], versionPath: JSONPath(["version"]),
        maximumBytes: 100)

    private func document(_ type: String, _ data: String, from base: JSONValue? = nil) throws -> SourceDocument? {
        try reading.document(after: .init(type: type, data: Array(data.utf8)), from: base)
    }

    @Test("an event without a type is a whole document, with its version")
    func whole() throws {
        let document = try document("message", #"{"version":7,"a":null}"#, from: ["b": 1])
        #expect(document?.value == ["version": 7, "a": .null])
        #expect(document?.version == UpstreamVersion("7"))
        #expect(document?.validator == nil)
    }

    @Test("a patch changes the document before it", arguments: ["patch", "delta"])
    func patch(_ type: String) throws {
        let document = try document(
            type, #"{"version":8,"a":{"b":null,"c":3}}"#, from: ["version": 7, "a": ["b": 1, "d": 4], "n": .null])
        #expect(document?.value == ["version": 8, "a": ["c": 3, "d": 4], "n": .null])
        #expect(document?.version == UpstreamVersion("8"))
    }

    @Test("events of other types say nothing", arguments: ["ping", "Patch", "messages"])
    func others(_ type: String) throws {
        #expect(try document(type, "{}", from: ["a": 1]) == nil)
        #expect(try document(type, "garbage") == nil)
    }

    @Test(
        "what makes no sense is refused, and said what it is",
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

    @Test("a patch before any whole document is refused")
    func patchFirst() {
        let error = #expect(throws: ConfigError.self) { try document("patch", "{}") }
        #expect(error?.code == .rejected)
        #expect(error?.message.contains("before any whole document") == true)
    }
}

@Suite("The state of a stream")
struct StreamStateTests {
    private let failure = ConfigError(.upstreamFailed, "broken")

    /// A state with a consumer whose connection is there.
    private static func connected() -> (state: StreamState, consumer: Int, signals: AsyncStream<Void>) {
        var state = StreamState()
        let (signals, signal) = AsyncStream.makeStream(of: Void.self)
        let consumer = state.begin(signal)
        _ = state.connects(for: consumer)
        return (state, consumer, signals)
    }

    private func value(_ answer: Result<SourceAnswer, ConfigError>) throws -> JSONValue? {
        guard case .document(let document) = try answer.get() else { return nil }
        return document.value
    }

    @Test("a document that came before the connection broke is handed out before the failure is")
    func order() throws {
        var (state, consumer, _) = Self.connected()
        #expect(throws: ConfigError.self) { try state.answer(location: "x").answer.get() }
        #expect(state.tell(SourceDocument(value: ["v": 1]), after: 0, for: consumer)?.signal != nil)
        #expect(state.fail(failure, isParked: false, for: consumer).signal != nil)
        let first = state.answer(location: "x")
        #expect(try value(first.answer) == ["v": 1])
        #expect(first.effects.signal != nil, "the failure is still to be told")
        let second = state.answer(location: "x")
        #expect(throws: failure) { try second.answer.get() }
        #expect(second.effects.signal == nil)
        #expect(state.resumed(after: state.mark, for: consumer)?.signal != nil)
        #expect(try value(state.answer(location: "x").answer) == ["v": 1])
    }

    @Test("what the stream told during a question wins over its answer, unless that is certainly newer")
    func race() throws {
        var (state, consumer, _) = Self.connected()
        let answers: [(String?, String?, Int)] = [(nil, nil, 2), ("5", "6", 2), ("6", "5", 3), ("a", "b", 2)]
        for (answered, told, expected) in answers {
            let asked = state.told
            _ = state.tell(
                SourceDocument(value: ["v": 2], version: told.map(UpstreamVersion.init)), after: state.mark,
                for: consumer)
            let answer = SourceDocument(value: ["v": 3], version: answered.map(UpstreamVersion.init))
            #expect(
                try value(.success(state.take(answer, askedAt: asked).answer))
                    == ["v": JSONValue(integerLiteral: expected)])
            #expect(state.document?.value == ["v": JSONValue(integerLiteral: expected)])
            _ = state.ended(for: consumer)
            _ = state.connects(for: consumer)
        }
        let answer = state.take(SourceDocument(value: ["v": 4]), askedAt: state.told).answer
        #expect(try value(.success(answer)) == ["v": 4])
        guard case .notModified = state.take(nil, askedAt: state.told).answer else {
            return #expect(Bool(false), "nothing has changed")
        }
    }

    @Test("an answer that differs from what the stream told ends the connection, which may still tell older things")
    func difference() throws {
        var (state, consumer, _) = Self.connected()
        _ = state.goesOn(Task { nil }, for: consumer)
        _ = state.tell(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
        #expect(state.take(SourceDocument(value: ["v": 1]), askedAt: state.told).interrupted == nil)
        #expect(state.tell(SourceDocument(value: ["v": 2]), after: state.mark, for: consumer)?.signal != nil)

        #expect(state.take(SourceDocument(value: ["v": 5]), askedAt: state.told).interrupted != nil)
        #expect(state.tell(SourceDocument(value: ["v": 3]), after: state.mark, for: consumer)?.signal == nil)
        #expect(state.document?.value == ["v": 5])
        let isFollowed = state.ended(for: consumer)
        #expect(isFollowed, "another connection is made at once")
        _ = state.connects(for: consumer)
        #expect(state.tell(SourceDocument(value: ["v": 6]), after: state.mark, for: consumer)?.signal != nil)
    }

    @Test("a connection is not up to date by the answer to a question that was put before it")
    func questionBefore() {
        var (state, consumer, _) = Self.connected()
        let (mark, told) = (state.mark, state.told)
        _ = state.take(SourceDocument(value: ["v": 1]), askedAt: told)
        #expect(state.resumed(after: mark, for: consumer) == nil)
        #expect(state.resumed(after: state.mark, for: consumer)?.signal != nil)
        #expect(state.told != told, "what is asked before and answered afterwards does not count")
    }

    @Test("after an id that no header can carry a connection begins anew")
    func unusableIDs() {
        var (state, consumer, _) = Self.connected()
        _ = state.tell(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
        for (id, isSaid) in [
            (String(repeating: "i", count: 4096), true), (String(repeating: "i", count: 4097), false), ("é", true),
            ("a\u{1}b", false), (" a", false),
        ] {
            state.remember(id, nil, for: consumer)
            #expect(state.connects(for: consumer) == (isSaid ? id : nil))
        }
    }

    @Test("no id is said where the whole document is asked for elsewhere")
    func elsewhere() {
        var (state, consumer, _) = Self.connected()
        _ = state.tell(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
        state.remember("7", nil, for: consumer)
        #expect(state.connects(for: consumer, asksElsewhere: true) == nil)
        #expect(state.connects(for: consumer) == "7")
    }

    @Test("a patch that was made from an older document is not taken")
    func mark() {
        var (state, consumer, _) = Self.connected()
        let mark = state.mark
        _ = state.take(SourceDocument(value: ["v": 1]), askedAt: state.told)
        #expect(state.tell(SourceDocument(value: ["v": 2]), after: mark, for: consumer) == nil)
        #expect(state.tell(SourceDocument(value: ["v": 2]), after: state.mark, for: consumer) != nil)
    }

    @Test("a connection goes on after the last event, and begins anew after one that made no sense")
    func resumption() {
        var (state, consumer, _) = Self.connected()
        _ = state.tell(SourceDocument(value: ["v": 1]), after: 0, for: consumer)
        #expect(state.connects(for: consumer) == nil, "the origin gave no id")
        _ = state.tell(SourceDocument(value: ["v": 1]), after: state.mark, for: consumer)
        state.remember("7", .seconds(2), for: consumer)
        #expect(state.connects(for: consumer) == "7")
        #expect(state.retry == .seconds(2))
        _ = state.fail(failure, isParked: false, for: consumer)
        #expect(state.connects(for: consumer) == "7")
        _ = state.fail(ConfigError(.rejected, "nonsense"), isParked: false, for: consumer)
        #expect(state.connects(for: consumer) == nil)
    }

    @Test("a former consumer's connection changes nothing any more")
    func former() {
        var (state, old, _) = Self.connected()
        let (_, signal) = AsyncStream.makeStream(of: Void.self)
        let new = state.begin(signal)
        #expect(new != old)
        #expect(state.tell(SourceDocument(value: ["v": 1]), after: 0, for: old)?.signal == nil)
        #expect(state.document == nil)
        #expect(state.fail(failure, isParked: false, for: old).signal == nil)
        state.remember("7", nil, for: old)
        #expect(state.lastEventID == "")
    }
}
