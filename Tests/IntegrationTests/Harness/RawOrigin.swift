import CLinuxShims
import Foundation
import Synchronization

/// An HTTP origin on 127.0.0.1 that answers whatever a test says, right or wrong: HTTP servers refuse to send what these
/// tests need.
final class RawOrigin: Sendable {
    /// What to do with a request.
    enum Answer: Sendable {
        /// Bytes as they are; then the connection is closed or kept.
        case bytes([UInt8], thenClose: Bool)
        /// Nothing, until another answer is set.
        case hang
    }

    /// What happened.
    enum Event: Sendable {
        /// A request came, with the header fields by lower-case names, and `:method`, `:path` and `:body`.
        case request([String: String])
        /// A connection was closed by the other side.
        case disconnected
    }

    let port: Int
    private let listener: CInt
    private let shared: Mutex<Shared>
    /// A byte goes through it when the answer changes or all is over.
    private let wake: (read: CInt, write: CInt)
    /// A byte comes out of it with each event.
    private let told: (read: CInt, write: CInt)

    private struct Shared {
        var answer: Answer
        /// Answers for some paths, in turn; the last one stays.
        var answers: [String: [Answer]] = [:]
        /// What is to be sent over the connections that are kept, or nil for their end.
        var actions: [[UInt8]?] = []
        var events: [Event] = []
        var isListening = false
        var isStopped = false

        mutating func takeAnswer(to path: String) -> Answer {
            guard let answers = answers[path], let first = answers.first else { return answer }
            if answers.count > 1 { self.answers[path]?.removeFirst() }
            return first
        }
    }

    /// Takes a port. Connections are refused until ``listen()``.
    init(_ answer: Answer = .hang) throws {
        shared = Mutex(Shared(answer: answer))
        (listener, port) = try LoopbackPort.take()
        wake = try Self.pipe()
        told = try Self.pipe()
        Thread { [self] in run() }.start()
    }

    /// An origin that accepts connections.
    static func listening(_ answer: Answer) throws -> RawOrigin {
        let origin = try RawOrigin(answer)
        origin.listen()
        return origin
    }

    /// The address of a document.
    var url: String { "http://127.0.0.1:\(port)/config.json" }

    func listen() {
        _ = Glibc.listen(listener, 64)
        shared.withLock { $0.isListening = true }
        _ = write(wake.write, "w", 1)
    }

    /// The answer from now on, also for requests that were left hanging.
    func answer(_ answer: Answer) {
        shared.withLock { $0.answer = answer }
        _ = write(wake.write, "w", 1)
    }

    /// The answer from now on to requests for a path, with its query.
    func answer(_ answer: Answer, to path: String) { self.answer(inTurn: [answer], to: path) }

    /// The answers to the next requests for a path, with its query, one after the other; the last one stays.
    func answer(inTurn answers: [Answer], to path: String) {
        shared.withLock { $0.answers[path] = answers }
        _ = write(wake.write, "w", 1)
    }

    /// Sends a text over all connections that are kept, behind what they were answered; those that wait for their first
    /// answer would take it for that.
    func send(_ text: String) { send(Array(text.utf8)) }

    /// Sends bytes as ``send(_:)-(String)`` does a text.
    func send(_ bytes: [UInt8]) {
        shared.withLock { $0.actions.append(bytes) }
        _ = write(wake.write, "w", 1)
    }

    /// Closes all connections.
    func disconnect() {
        shared.withLock { $0.actions.append(nil) }
        _ = write(wake.write, "w", 1)
    }

    /// Ends the thread and all connections.
    func stop() {
        shared.withLock { $0.isStopped = true }
        _ = write(wake.write, "w", 1)
    }

    // MARK: What happened

    /// The next event, which is then forgotten.
    func event(until deadline: Deadline = .usual) throws -> Event {
        while true {
            let event = shared.withLock { $0.events.isEmpty ? nil : $0.events.removeFirst() }
            if let event { return event }
            try wait(on: told.read, until: deadline, "something to happen at the origin")
            var byte: UInt8 = 0
            _ = read(told.read, &byte, 1)
        }
    }

    /// The header fields of the next request.
    @discardableResult
    func request(until deadline: Deadline = .usual) throws -> [String: String] {
        while true {
            if case .request(let fields) = try event(until: deadline) { return fields }
        }
    }

    /// Waits until a connection is closed by the agent.
    func disconnection(until deadline: Deadline = .usual) throws {
        while true {
            if case .disconnected = try event(until: deadline) { return }
        }
    }

    /// Forgets what has happened so far.
    func forgetEvents() { shared.withLock { $0.events = [] } }

    private func tell(_ event: Event) {
        shared.withLock { $0.events.append(event) }
        _ = write(told.write, "e", 1)
    }

    // MARK: The thread

    private struct Connection {
        var input = ""
        /// The paths of complete requests without an answer.
        var waiting: [String] = []
        var isAnswered = false
    }

    private func run() {
        var connections: [CInt: Connection] = [:]
        while !shared.withLock({ $0.isStopped }) {
            // A socket that does not listen yet would only say so, again and again.
            let listening = shared.withLock { $0.isListening } ? [listener] : []
            let descriptors = [wake.read] + listening + connections.keys
            var polled = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            guard poll(&polled, nfds_t(polled.count), -1) > 0 else { continue }
            for entry in polled where entry.revents != 0 {
                if entry.fd == wake.read {
                    var bytes = [UInt8](repeating: 0, count: 64)
                    _ = read(wake.read, &bytes, bytes.count)
                } else if entry.fd == listener {
                    let accepted = accept(listener, nil, nil)
                    _ = fcntl(accepted, F_SETFD, FD_CLOEXEC)
                    if accepted >= 0 { connections[accepted] = Connection() }
                } else if !receive(entry.fd, &connections) {
                    close(entry.fd)
                    connections[entry.fd] = nil
                    tell(.disconnected)
                }
            }
            for descriptor in connections.keys { answer(descriptor, &connections) }
            let actions = shared.withLock { shared in
                defer { shared.actions = [] }
                return shared.actions
            }
            for action in actions { perform(action, &connections) }
        }
        for descriptor in [listener, wake.read, wake.write, told.read, told.write] + connections.keys {
            close(descriptor)
        }
    }

    private func receive(_ descriptor: CInt, _ connections: inout [CInt: Connection]) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 8192)
        let count = read(descriptor, &bytes, bytes.count)
        guard count > 0, var connection = connections[descriptor] else { return false }
        connection.input += String(decoding: bytes[..<count], as: UTF8.self)
        while let end = connection.input.range(of: "\r\n\r\n") {
            let lines = connection.input[..<end.lowerBound].components(separatedBy: "\r\n")
            var fields: [String: String] = [:]
            for line in lines.dropFirst() {
                let name = line.prefix { $0 != ":" }
                fields[name.lowercased()] = line.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces)
            }
            let rest = connection.input[end.upperBound...]
            let length = fields["content-length"].flatMap { Int($0) } ?? 0
            guard rest.utf8.count >= length else { break }
            let words = lines[0].split(separator: " ").map(String.init)
            (fields[":method"], fields[":path"]) = (words[0], words[1])
            fields[":body"] = String(decoding: rest.utf8.prefix(length), as: UTF8.self)
            connection.input = String(decoding: rest.utf8.dropFirst(length), as: UTF8.self)
            connection.waiting.append(words[1])
            tell(.request(fields))
        }
        connections[descriptor] = connection
        return true
    }

    private func answer(_ descriptor: CInt, _ connections: inout [CInt: Connection]) {
        while let path = connections[descriptor]?.waiting.first,
            case .bytes(let bytes, let thenClose) = shared.withLock({ $0.takeAnswer(to: path) })
        {
            connections[descriptor]?.waiting.removeFirst()
            connections[descriptor]?.isAnswered = true
            _ = Glibc.send(descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL))
            if thenClose {
                close(descriptor)
                connections[descriptor] = nil
            }
        }
    }

    private func perform(_ action: [UInt8]?, _ connections: inout [CInt: Connection]) {
        for (descriptor, connection) in connections {
            if let action {
                guard connection.isAnswered else { continue }
                _ = Glibc.send(descriptor, action, action.count, CInt(MSG_NOSIGNAL))
            } else {
                close(descriptor)
            }
        }
        if action == nil { connections = [:] }
    }

    private static func pipe() throws -> (read: CInt, write: CInt) {
        var ends: [CInt] = [-1, -1]
        guard larder_pipe(&ends, true) == 0 else { throw HarnessError.system("pipe") }
        return (ends[0], ends[1])
    }
}
