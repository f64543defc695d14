internal import LarderHTTPSemantics

/// Reads an event stream (WHATWG HTML, section "Server-sent events") without input or output of its own.
///
/// However the stream is cut into pieces, the events are the same. What is still unfinished at the end of the stream is no
/// event.
package struct EventStreamParser: Sendable {
    package struct Event: Sendable, Hashable {
        /// Its type; `message` where the stream names none.
        package var type: String
        /// Its data, the lines joined by LF. The bytes are as they came: whoever reads them checks that they are UTF-8.
        package var data: [UInt8]

        package init(type: String, data: [UInt8]) {
            self.type = type
            self.data = data
        }
    }

    /// The id that a new connection says in `Last-Event-ID`; empty before there is one.
    package private(set) var lastEventID: String
    /// How long the origin wants a client to wait before it connects again; nil before it said so.
    package private(set) var retry: Duration?
    /// Whether an event passed the limit. Nothing that comes after it is read.
    package private(set) var isOverflowing = false

    private let maximumEventBytes: Int
    /// What came of a line that has not ended.
    private var line: [UInt8] = []
    /// Whether the line is a comment, of which nothing is kept.
    private var isComment = false
    private var follows = Follows.start
    private var data: [UInt8] = []
    private var hasData = false
    private var type: [UInt8] = []
    private var id: [UInt8]

    private enum Follows {
        /// The first bytes of the stream: perhaps a byte order mark.
        case start
        case anything
        /// What follows a CR: an LF belongs to it.
        case carriageReturn
    }

    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]
    private static let lineFeed = UInt8(ascii: "\n")
    private static let carriageReturn = UInt8(ascii: "\r")

    /// Makes a parser for the beginning of a stream.
    ///
    /// - Parameters:
    ///   - maximumEventBytes: the most that the data of an event, and any line, may have
    ///   - lastEventID: the id that the connection was opened with
    package init(maximumEventBytes: Int, lastEventID: String = "") {
        self.maximumEventBytes = maximumEventBytes
        self.lastEventID = lastEventID
        id = Array(lastEventID.utf8)
    }

    /// Whether an event or a line has begun and is not complete.
    package var isInsideEvent: Bool { hasData || !line.isEmpty }

    /// Takes the next bytes of the stream and gives the events that they complete.
    package mutating func parse(_ bytes: [UInt8]) -> [Event] {
        var events: [Event] = []
        var rest = bytes[...]
        while !rest.isEmpty, !isOverflowing {
            switch follows {
            case .start:
                // At most three bytes, one by one: the mark may be cut.
                line.append(rest.removeFirst())
                if line == Self.byteOrderMark { line = [] } else if Self.byteOrderMark.starts(with: line) { continue }
                follows = .anything
                rest = line + rest
                line = []
            case .carriageReturn:
                if rest.first == Self.lineFeed { rest.removeFirst() }
                follows = .anything
            case .anything:
                let end = rest.firstIndex { $0 == Self.lineFeed || $0 == Self.carriageReturn }
                append(rest[..<(end ?? rest.endIndex)])
                guard let end, !isOverflowing else { return events }
                if rest[end] == Self.carriageReturn { follows = .carriageReturn }
                rest = rest[rest.index(after: end)...]
                if let event = endLine() { events.append(event) }
            }
        }
        return events
    }

    private mutating func append(_ bytes: ArraySlice<UInt8>) {
        if line.isEmpty, bytes.first == UInt8(ascii: ":") { isComment = true }
        if isComment || bytes.isEmpty { return }
        // Room for the name of the field; a limit that is exact to the byte is not needed here, but for the data below.
        guard bytes.count <= maximumEventBytes + 64 - line.count else { return isOverflowing = true }
        line += bytes
    }

    private mutating func endLine() -> Event? {
        defer {
            line.removeAll(keepingCapacity: line.count <= 4096)
            isComment = false
        }
        if isComment { return nil }
        if line.isEmpty { return dispatch() }
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
        var value = line[colon...].dropFirst()
        if value.first == UInt8(ascii: " ") { value = value.dropFirst() }
        field(line[..<colon], value)
        return nil
    }

    private mutating func field(_ name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>) {
        if name.elementsEqual("data".utf8) {
            guard value.count + 1 <= maximumEventBytes + 1 - data.count else { return isOverflowing = true }
            data += value
            data.append(Self.lineFeed)
            hasData = true
        } else if name.elementsEqual("event".utf8) {
            type = Array(value)
        } else if name.elementsEqual("id".utf8) {
            if !value.contains(0) { id = Array(value) }
        } else if name.elementsEqual("retry".utf8) {
            guard !value.isEmpty, value.allSatisfy({ (0x30...0x39).contains($0) }) else { return }
            // What is too large for a number is for ever; the reader has a limit of its own.
            let milliseconds = Int64(String(decoding: value, as: UTF8.self)) ?? .max
            retry = min(.milliseconds(milliseconds), RetryAfter.longest)
        }
    }

    /// An empty line: the event is complete, if there is one.
    private mutating func dispatch() -> Event? {
        lastEventID = String(decoding: id, as: UTF8.self)
        defer {
            data = []
            hasData = false
            type = []
        }
        guard hasData else { return nil }
        return Event(
            type: type.isEmpty ? "message" : String(decoding: type, as: UTF8.self), data: Array(data.dropLast()))
    }
}
