import Glibc
import LarderJSON
import TestSupport

/// A connection to an agent: lines out, lines in, in plain blocking calls with deadlines.
final class LineClient {
    private let socket: Descriptor
    private let reader: LineReader
    private let recorder: Recorder?
    /// Sent bytes of a line that has no LF yet, for the record.
    private var unfinished: [UInt8] = []
    private var isClosed = false
    private var nextID = 0
    private var replies: [Int: JSONValue] = [:]
    private var events: [JSONValue] = []
    /// The process through which it is connected, if there is one: it ends with the client.
    var relay: ChildProcess?

    /// What the agent refused.
    struct Refusal: Error, Equatable, CustomStringConvertible {
        let code: Int
        let name: String
        let detail: String
        /// Which of several reasons it is, where the error has some.
        var reason: String?
        var description: String { "\(name) (\(code))\(reason.map { ", \($0)" } ?? ""): \(detail)" }
    }

    /// Connects.
    /// - Parameter isRecorded: whether its traffic is kept for the check against the schemas
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

    // MARK: Out

    /// Sends a line.
    func send(_ text: String, until deadline: Deadline = .usual) throws {
        try send(bytes: Array(text.utf8) + [UInt8(ascii: "\n")], until: deadline)
    }

    /// Sends bytes as they are. While the agent does not read, what it says is taken: it may be waiting for that.
    func send(bytes: [UInt8], until deadline: Deadline = .usual) throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            rest = rest.dropFirst(try sendWhatFits(rest))
            if rest.isEmpty { return }
            try reader.waitToTake(orToWriteTo: socket.number, until: deadline)
        }
    }

    /// Sends as much as the socket takes without waiting.
    /// - Returns: how many bytes that were.
    func sendWhatFits(_ bytes: ArraySlice<UInt8>) throws -> Int {
        let flags = CInt(MSG_NOSIGNAL) | CInt(MSG_DONTWAIT)
        while true {
            let count = bytes.withUnsafeBytes { Glibc.send(socket.number, $0.baseAddress, $0.count, flags) }
            if count >= 0 {
                note(bytes.prefix(count))
                return count
            }
            if errno == EAGAIN { return 0 }
            if errno != EINTR { throw HarnessError.system("send") }
        }
    }

    private func note(_ sent: ArraySlice<UInt8>) {
        guard let recorder else { return }
        unfinished += sent
        let lines = unfinished.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for line in lines.dropLast() { recorder.sent(line) }
        if lines.count > 1 { unfinished = lines.last.map { Array($0) } ?? [] }
    }

    /// Says that nothing more will be sent. What is on its way arrives.
    func endInput() {
        if !unfinished.isEmpty { recorder?.sent(unfinished) }
        unfinished = []
        shutdown(socket.number, CInt(SHUT_WR))
    }

    /// Goes away, whatever the agent may still want to say.
    func close() {
        if isClosed { return }
        isClosed = true
        recorder?.abandoned()
        socket.close()
    }

    // MARK: In

    /// The next line; nothing once the agent has closed the connection.
    func line(until deadline: Deadline = .usual) throws -> [UInt8]? {
        let line = try reader.line(until: deadline, "a line from the agent")
        if let line { recorder?.received(line) }
        return line
    }

    /// The next message.
    func message(until deadline: Deadline = .usual) throws -> JSONValue {
        guard let line = try line(until: deadline) else { throw HarnessError("the agent closed the connection") }
        return try JSONValue(parsing: line, maximumDepth: 256)
    }

    /// Waits until the agent closes the connection.
    /// - Parameter answersAll: whether all that was asked has to be answered. An agent that stops while its replies are
    ///   not taken does not read what comes behind.
    /// - Returns: the messages that came before.
    @discardableResult
    func untilClosed(_ deadline: Deadline = .usual, answersAll: Bool = true) throws -> [JSONValue] {
        var messages = events
        events = []
        while let line = try line(until: deadline) { messages.append(try JSONValue(parsing: line, maximumDepth: 256)) }
        if !answersAll { recorder?.abandoned() }
        isClosed = true
        socket.close()
        return messages
    }

    /// Reads without waiting and without looking at what it is.
    /// - Returns: whether there may be more.
    func takePiece(_ size: Int) -> Bool { reader.takePiece(size) }

    /// Reads all lines that have come, without waiting.
    func linesSoFar() -> [[UInt8]] {
        reader.takeWhatIsThere()
        var lines: [[UInt8]] = []
        while let line = reader.nextLine() {
            recorder?.received(line)
            lines.append(line)
        }
        return lines
    }

    /// Whether the agent closed the connection. There may be lines left to take.
    var isAtEnd: Bool { reader.isAtEnd }

    // MARK: Requests and events

    /// Sends a request.
    /// - Returns: its id.
    func request(_ method: String, _ params: JSONValue? = nil) throws -> Int {
        nextID += 1
        try send(Self.text(id: nextID, method, params))
        return nextID
    }

    /// Sends a notification.
    func notify(_ method: String, _ params: JSONValue? = nil) throws { try send(Self.text(id: nil, method, params)) }

    /// A request's text.
    static func text(id: Int?, _ method: String, _ params: JSONValue? = nil) -> String {
        let members: [(String, JSONValue?)] = [
            ("id", id.map { .int($0) }), ("method", .string(method)), ("params", params),
        ]
        return JSONValue.object(members.compactMap { name, value in value.map { (name, $0) } }).compactText
    }

    /// Waits for the reply to a request. What else comes is kept.
    /// - Throws: ``Refusal``.
    @discardableResult
    func reply(to id: Int, until deadline: Deadline = .usual) throws -> JSONValue {
        while true {
            if let reply = replies.removeValue(forKey: id) { return try Self.result(of: reply) }
            try takeMessage(until: deadline)
        }
    }

    /// Asks and waits for the result.
    @discardableResult
    func call(_ method: String, _ params: JSONValue? = nil, until deadline: Deadline = .usual) throws -> JSONValue {
        try reply(to: try request(method, params), until: deadline)
    }

    /// Asks again and again, for what no event tells, until the result is as it has to become.
    func call(_ method: String, until isRight: (JSONValue) -> Bool) throws {
        let deadline = Deadline.usual
        while true {
            let result = try call(method)
            if isRight(result) { return }
            if deadline.hasPassed { throw HarnessError("\(method) stays at \(result)") }
            // So that the agent has something to do besides, and the record stays small.
            _ = poll(nil, 0, 5)
        }
    }

    /// Asks for something that the agent has to refuse.
    func refusal(_ method: String, _ params: JSONValue? = nil) throws -> Refusal {
        do {
            throw HarnessError("the agent did it: \(try call(method, params))")
        } catch let refusal as Refusal {
            return refusal
        }
    }

    /// The params of the next event.
    func event(until deadline: Deadline = .usual) throws -> JSONValue {
        while events.isEmpty { try takeMessage(until: deadline) }
        return events.removeFirst()
    }

    /// The params of the events that came while something else was waited for.
    func eventsSoFar() -> [JSONValue] {
        defer { events = [] }
        return events
    }

    /// Whether an event or a line was received already, so that the socket may have nothing to read.
    var hasReceived: Bool { !events.isEmpty || reader.hasLine }

    private func takeMessage(until deadline: Deadline) throws {
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
