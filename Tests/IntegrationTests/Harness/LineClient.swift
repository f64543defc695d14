import Glibc
import LarderJSON
import TestSupport

/// A connection to an agent. Sends and receives lines with blocking calls that have deadlines.
final class LineClient {
    private let socket: Descriptor
    private let reader: LineReader
    private let recorder: Recorder?
    /// The beginning of a sent line whose LF is not sent yet. Used only if there is a recorder, which records whole
    /// lines.
    private var partialLine: [UInt8] = []
    private var isClosed = false
    private var nextID = 0
    private var replies: [Int: JSONValue] = [:]
    private var events: [JSONValue] = []
    /// The process that relays the connection, if any. The process is killed when the client is released.
    var relay: ChildProcess?

    /// An error reply of the agent.
    struct Refusal: Error, Equatable, CustomStringConvertible {
        let code: Int
        let name: String
        let detail: String
        /// The `reason` of the error, if it has one.
        var reason: String?
        var description: String { "\(name) (\(code))\(reason.map { ", \($0)" } ?? ""): \(detail)" }
    }

    /// Connects to the socket at `path`.
    /// - Parameter isRecorded: False to omit the traffic from the ``Recorder``.
    init(path: String, isRecorded: Bool = true) throws {
        let socket = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
        self.socket = socket
        let result = try withUnixAddress(path) { connect(socket.number, $0, $1) }
        guard result == 0 else { throw HarnessError.system("connect to \(path)") }
        reader = LineReader(socket)
        recorder = isRecorded ? Recorder() : nil
    }

    deinit { close() }

    var descriptor: CInt { socket.number }

    // MARK: Sending

    /// Sends a text and an LF.
    func send(_ text: String, until deadline: Deadline = .usual) throws {
        try send(bytes: Array(text.utf8) + [UInt8(ascii: "\n")], until: deadline)
    }

    /// Sends bytes unchanged. Reads input whenever the socket buffer is full, because the agent may stop reading until
    /// its own output is read.
    func send(bytes: [UInt8], until deadline: Deadline = .usual) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            rest = rest.dropFirst(try sendWithoutBlocking(rest))
            if rest.isEmpty { return }
            try reader.waitAndRead(orUntilWritable: socket.number, until: deadline)
        }
    }

    /// Sends as much as the socket accepts without blocking. Returns the number of bytes sent.
    func sendWithoutBlocking(_ bytes: ArraySlice<UInt8>) throws -> Int {
        let flags = CInt(MSG_NOSIGNAL) | CInt(MSG_DONTWAIT)
        while true {
            let count = bytes.withUnsafeBytes { Glibc.send(socket.number, $0.baseAddress, $0.count, flags) }
            if count >= 0 {
                record(bytes.prefix(count))
                return count
            }
            if errno == EAGAIN { return 0 }
            if errno != EINTR { throw HarnessError.system("send") }
        }
    }

    private func record(_ sent: ArraySlice<UInt8>) {
        guard let recorder else { return }
        partialLine += sent
        let lines = partialLine.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for line in lines.dropLast() { recorder.sent(line) }
        if lines.count > 1 { partialLine = lines.last.map { Array($0) } ?? [] }
    }

    /// Shuts down the writing side of the connection. Replies and events still arrive.
    func halfClose() {
        if !partialLine.isEmpty { recorder?.sent(partialLine) }
        partialLine = []
        shutdown(socket.number, CInt(SHUT_WR))
    }

    /// Closes the connection, even if replies are outstanding.
    func close() {
        if isClosed { return }
        isClosed = true
        recorder?.abandoned()
        socket.close()
    }

    // MARK: Receiving

    /// Waits for the next line. Returns nil once the agent has closed the connection.
    func line(until deadline: Deadline = .usual) throws -> [UInt8]? {
        let line = try reader.line(until: deadline, "a line from the agent")
        if let line { recorder?.received(line) }
        return line
    }

    /// Waits for the next line and parses it.
    func message(until deadline: Deadline = .usual) throws -> JSONValue {
        guard let line = try line(until: deadline) else { throw HarnessError("the agent closed the connection") }
        return try JSONValue(parsing: line, maximumDepth: 256)
    }

    /// Waits until the agent closes the connection. Returns the messages received until then, starting with buffered
    /// events.
    /// - Parameter expectsAllReplies: False if some requests may remain without a reply, for example because the agent
    ///   stops while its output is blocked. Only the ``Recorder`` uses this value.
    @discardableResult
    func readUntilClosed(_ deadline: Deadline = .usual, expectsAllReplies: Bool = true) throws -> [JSONValue] {
        var messages = events
        events = []
        while let line = try line(until: deadline) { messages.append(try JSONValue(parsing: line, maximumDepth: 256)) }
        if !expectsAllReplies { recorder?.abandoned() }
        isClosed = true
        socket.close()
        return messages
    }

    /// Reads up to `maxBytes` into the buffer without waiting or parsing. Returns false if no input was available.
    func readChunk(_ maxBytes: Int) -> Bool { reader.readChunk(maxBytes) }

    /// Reads all available lines without waiting.
    func availableLines() -> [[UInt8]] {
        reader.readAvailable()
        var lines: [[UInt8]] = []
        while let line = reader.nextLine() {
            recorder?.received(line)
            lines.append(line)
        }
        return lines
    }

    /// Whether the agent has closed the connection. Unread lines may remain.
    var isAtEnd: Bool { reader.isAtEnd }

    // MARK: Requests and events

    /// Sends a request and returns its id.
    func request(_ method: String, _ params: JSONValue? = nil) throws -> Int {
        nextID += 1
        try send(Self.text(id: nextID, method, params))
        return nextID
    }

    /// Sends a JSON-RPC notification.
    func notify(_ method: String, _ params: JSONValue? = nil) throws { try send(Self.text(id: nil, method, params)) }

    /// The text of a request, or of a notification if `id` is nil.
    static func text(id: Int?, _ method: String, _ params: JSONValue? = nil) -> String {
        let members: [(String, JSONValue?)] = [
            ("id", id.map { .int($0) }), ("method", .string(method)), ("params", params),
        ]
        return JSONValue.object(members.compactMap { name, value in value.map { (name, $0) } }).compactText
    }

    /// Waits for the reply to a request and returns its result. Keeps other replies and events that arrive in between.
    /// - Throws: ``Refusal`` if the reply is an error.
    @discardableResult
    func reply(to id: Int, until deadline: Deadline = .usual) throws -> JSONValue {
        while true {
            if let reply = replies.removeValue(forKey: id) { return try Self.result(of: reply) }
            try receiveMessage(until: deadline)
        }
    }

    /// Sends a request and waits for the result.
    @discardableResult
    func call(_ method: String, _ params: JSONValue? = nil, until deadline: Deadline = .usual) throws -> JSONValue {
        try reply(to: try request(method, params), until: deadline)
    }

    /// Repeats a request until `condition` accepts the result. Use it for state changes that no event reports.
    func call(_ method: String, until condition: (JSONValue) -> Bool) throws {
        let deadline = Deadline.usual
        while true {
            let result = try call(method)
            if condition(result) { return }
            if deadline.hasPassed { throw HarnessError.timeout("\(method); its last result is \(result)") }
            // The pause gives the agent time for other work, and keeps the file of the recorder small.
            _ = poll(nil, 0, 5)
        }
    }

    /// Sends a request that the agent must reject, and returns the error.
    func refusal(_ method: String, _ params: JSONValue? = nil) throws -> Refusal {
        do {
            throw HarnessError("the agent accepted \(method): \(try call(method, params))")
        } catch let refusal as Refusal {
            return refusal
        }
    }

    /// Waits for the next event and returns its params.
    func event(until deadline: Deadline = .usual) throws -> JSONValue {
        while events.isEmpty { try receiveMessage(until: deadline) }
        return events.removeFirst()
    }

    /// Removes and returns the params of the events that were received while this client waited for replies.
    func takeBufferedEvents() -> [JSONValue] {
        defer { events = [] }
        return events
    }

    /// Whether an event or a line is buffered. The next message is then available even if the socket is not readable.
    var hasBufferedInput: Bool { !events.isEmpty || reader.hasLine }

    private func receiveMessage(until deadline: Deadline) throws {
        let message = try message(until: deadline)
        if message["method"] != nil {
            events.append(try require(message["params"], "params of an event"))
        } else {
            replies[try require(message["id"]?.int, "id of a reply: \(message)")] = message
        }
    }

    static func result(of reply: JSONValue) throws -> JSONValue {
        if let result = reply["result"] { return result }
        let error = try require(reply["error"], "error in \(reply)")
        throw Refusal(
            code: error["code"]?.int ?? 0, name: error["data"]?["name"]?.string ?? "",
            detail: error["data"]?["detail"]?.string ?? "", reason: error["data"]?["reason"]?.string)
    }
}
