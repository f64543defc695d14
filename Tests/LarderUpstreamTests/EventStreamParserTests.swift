@testable import LarderUpstream
import TestSupport
import Testing

@Suite("Event stream parser")
struct EventStreamParserTests {
    private typealias Event = EventStreamParser.Event

    private static func events(
        _ text: String, maximumEventBytes: Int = 1 << 20, lastEventID: String = ""
    ) -> (events: [Event], parser: EventStreamParser) {
        var parser = EventStreamParser(maximumEventBytes: maximumEventBytes, lastEventID: lastEventID)
        return (parser.parse(Array(text.utf8)), parser)
    }

    private static func message(_ data: String, type: String = "message") -> Event {
        Event(type: type, data: Array(data.utf8))
    }

    @Test(
        "lines end with CR, LF or CRLF, and an empty line ends an event",
        arguments: ["\n", "\r", "\r\n"])
    func lineEnds(_ end: String) {
        let text = ["event: a", "data: 1", "data: 2", "", "data: 3", "", ""].joined(separator: end)
        #expect(Self.events(text).events == [Self.message("1\n2", type: "a"), Self.message("3")])
    }

    @Test("the examples of the HTML standard are parsed into the events that the standard describes")
    func specification() {
        #expect(
            Self.events("data: YHOO\ndata: +2\ndata: 10\n\n").events == [Self.message("YHOO\n+2\n10")])
        let (four, parser) = Self.events(
            ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n")
        #expect(four == [Self.message("first event"), Self.message("second event")])
        #expect(parser.lastEventID == "")
        #expect(Self.events("data\n\ndata\ndata\n\ndata:").events == [Self.message(""), Self.message("\n")])
        #expect(Self.events("data:test\n\ndata: test\n\n").events == [Self.message("test"), Self.message("test")])
    }

    @Test("comments, unknown fields and field names in upper case are ignored")
    func ignoredLines() {
        let text = ":data: 1\nDATA: 2\ndata : 3\n data: 4\nnonsense\nfoo: bar\ndata: 5\n\n:\n\n"
        #expect(Self.events(text).events == [Self.message("5")])
    }

    @Test("an incomplete event at the end of the stream is discarded")
    func unfinished() {
        #expect(Self.events("data: 1\n").events.isEmpty)
        #expect(Self.events("data: 1").events.isEmpty)
        #expect(Self.events("data: 1\r").events.isEmpty)
    }

    @Test("an event type applies only to its own event, even if that event has no data")
    func type() {
        #expect(Self.events("event: a\n\ndata: 1\n\n").events == [Self.message("1")])
        #expect(Self.events("event: a\nevent: b\ndata: 1\n\n").events == [Self.message("1", type: "b")])
        #expect(Self.events("event: a\nevent:\ndata: 1\n\n").events == [Self.message("1")])
    }

    @Test("an id takes effect at the end of its event, even if the event has no data; an id with a NUL is ignored")
    func ids() {
        #expect(Self.events("id: 1\ndata: x\n").parser.lastEventID == "")
        #expect(Self.events("id: 1\n\n").parser.lastEventID == "1")
        #expect(Self.events("id: 1\n\nid: 2\u{0}\n\n").parser.lastEventID == "1")
        #expect(Self.events("id: 1\n\ndata: x\n\n").parser.lastEventID == "1")
        #expect(Self.events("id: 1\n\nid\n\n").parser.lastEventID == "")
        #expect(Self.events("data: x\n\n", lastEventID: "7").parser.lastEventID == "7")
    }

    @Test("retry is a number of milliseconds, at most 30 days; other values are ignored")
    func retry() {
        #expect(Self.events("retry: 1500\n").parser.retry == .milliseconds(1500))
        #expect(Self.events("retry: 0\n").parser.retry == .zero)
        for bad in ["", " ", "-1", "1.5", "1s", "٣"] { #expect(Self.events("retry:\(bad)\n").parser.retry == nil) }
        #expect(Self.events("retry: 99999999999999999999\n").parser.retry == .seconds(30 * 86_400))
    }

    @Test("one byte order mark at the start of the stream is skipped")
    func byteOrderMark() {
        #expect(Self.events("\u{feff}data: 1\n\n").events == [Self.message("1")])
        #expect(Self.events("\u{feff}\u{feff}data: 1\n\n").events.isEmpty)
        #expect(Self.events("data: 1\n\n\u{feff}data: 2\n\n").events == [Self.message("1")])
        var parser = EventStreamParser(maximumEventBytes: 100)
        // An incomplete byte order mark is part of the line.
        #expect(parser.parse([0xef, 0xbb]).isEmpty)
        #expect(parser.parse(Array("data: 1\n\ndata: 2\n\n".utf8)) == [Self.message("2")])
    }

    @Test("an event above the size limit stops the parser; earlier events are returned")
    func limit() {
        let exact = Self.events("data: 12345\ndata: 789\n\n", maximumEventBytes: 9)
        #expect(exact.events == [Self.message("12345\n789")])
        #expect(!exact.parser.isOverflowing)
        let (events, parser) = Self.events(
            "data: 1\n\ndata: 12345\ndata: 7890\n\ndata: 2\n\n", maximumEventBytes: 9)
        #expect(events == [Self.message("1")])
        #expect(parser.isOverflowing)
        var endless = EventStreamParser(maximumEventBytes: 9)
        for _ in 0..<100 { _ = endless.parse(Array("data".utf8)) }
        #expect(endless.isOverflowing)
        var comment = EventStreamParser(maximumEventBytes: 9)
        _ = comment.parse(Array(":".utf8))
        for _ in 0..<100 { _ = comment.parse(Array("comment".utf8)) }
        #expect(comment.parse(Array("\ndata: 1\n\n".utf8)) == [Self.message("1")])
    }

    @Test("the events do not depend on how the stream is cut into pieces", arguments: 0..<200 as Range<UInt64>)
    func cuts(_ seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let words = [
            "data", "data: ", "data:", "event: a", "id: 1", "id: \u{0}", "retry: 5", ":", " ", "x", "ä", "\u{feff}",
            "\n",
            "\n", "\r", "\r\n", "\n\n", "\r\r", "{\"a\":1}",
        ]
        var bytes: [UInt8] = []
        for _ in 0..<Int.random(in: 0..<120, using: &generator) {
            bytes += Array((words.randomElement(using: &generator) ?? "").utf8)
        }
        let limit = seed.isMultiple(of: 3) ? 20 : 1 << 20
        var whole = EventStreamParser(maximumEventBytes: limit)
        let expected = whole.parse(bytes)
        var cut = EventStreamParser(maximumEventBytes: limit)
        var events: [Event] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = min(rest.count, Int.random(in: 0...(seed.isMultiple(of: 2) ? 1 : 9), using: &generator))
            events += cut.parse(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        #expect(events == expected, "seed \(seed)")
        #expect(cut.lastEventID == whole.lastEventID, "seed \(seed)")
        #expect(cut.retry == whole.retry, "seed \(seed)")
        #expect(cut.isOverflowing == whole.isOverflowing, "seed \(seed)")
    }
}
