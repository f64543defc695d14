internal import LarderHTTPSemantics

/// Parses an event stream (WHATWG HTML, section "Server-sent events"). Performs no I/O.
/// A parser handles one stream, from its first byte. It skips a byte order mark only at the start of the stream.
///
/// However the input is cut, the events are the same. An event that is incomplete at the end of the stream is
/// discarded.
package struct EventStreamParser: Sendable {
    package struct Event: Sendable, Hashable {
        /// The type; `message` if the stream specifies none.
        package var type: String
        /// The data lines, joined by LF. The bytes are not checked to be valid UTF-8.
        package var data: [UInt8]

        package init(type: String, data: [UInt8]) {
            self.type = type
            self.data = data
        }
    }

    /// The ID to send in `Last-Event-ID` when reconnecting; empty before the first ID.
    package private(set) var lastEventID: String
    /// The reconnection delay that the origin has requested; nil if it has requested none.
    package private(set) var retry: Duration?
    /// Whether an event or a line exceeded the limit. The parser ignores all input after that.
    package private(set) var isOverflowing = false

    private let maximumEventBytes: Int
    /// The part of the current line that has been received.
    private var line: [UInt8] = []
    /// Whether the current line is a comment. Comments are not buffered.
    private var isComment = false
    private var follows = Follows.start
    private var data: [UInt8] = []
    private var hasData = false
    private var type: [UInt8] = []
    private var id: [UInt8]
    /// Whether `id` has changed since the last event. A long ID is decoded once, and not for each empty line.
    private var hasNewID = false

    private enum Follows {
        /// The start of the stream, where a byte order mark may come.
        case start
        case anything
        /// The byte after a CR. An LF there belongs to the same line end.
        case carriageReturn
    }

    private static let byteOrderMark: [UInt8] = [0xef, 0xbb, 0xbf]
    private static let lineFeed = UInt8(ascii: "\n")
    private static let carriageReturn = UInt8(ascii: "\r")

    /// - Parameters:
    ///   - maximumEventBytes: the maximum size of the data of an event; a line can have 64 bytes more, for the name of
    ///     its field
    ///   - lastEventID: the ID that was sent when the connection was opened
    package init(maximumEventBytes: Int, lastEventID: String = "") {
        self.maximumEventBytes = maximumEventBytes
        self.lastEventID = lastEventID
        id = Array(lastEventID.utf8)
    }

    /// Whether the input so far ends within an event that has data, or within a line that is not a comment.
    package var isInsideEvent: Bool { hasData || !line.isEmpty }

    /// Parses the next bytes of the stream. Returns the events that they complete.
    package mutating func parse(_ bytes: [UInt8]) -> [Event] {
        var events: [Event] = []
        var rest = bytes[...]
        while !rest.isEmpty, !isOverflowing {
            switch follows {
            case .start:
                // Reads at most three bytes, one at a time, because a byte order mark may be split between two pieces
                // of the input.
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
        // A line can have 64 bytes more than the data, for the name of its field. `field(_:_:)` checks the exact size
        // of the data.
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
            if value.contains(0) { return }
            id = Array(value)
            hasNewID = true
        } else if name.elementsEqual("retry".utf8) {
            guard !value.isEmpty, value.allSatisfy({ (0x30...0x39).contains($0) }) else { return }
            // A number that is too large counts as the maximum. ``ReconnectPlan`` limits the delay further.
            let milliseconds = Int64(String(decoding: value, as: UTF8.self)) ?? .max
            retry = min(.milliseconds(milliseconds), RetryAfter.maxDelay)
        }
    }

    /// Handles an empty line, which ends the event. Returns nil if the event has no data.
    private mutating func dispatch() -> Event? {
        if hasNewID { lastEventID = String(decoding: id, as: UTF8.self) }
        hasNewID = false
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
