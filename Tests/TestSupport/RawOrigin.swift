import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// An HTTP origin on 127.0.0.1 that sends exactly the bytes that a test specifies, valid or not.
package final class RawOrigin: Sendable {
    /// An action of the origin on the connection of a request.
    package enum Step: Sendable {
        case send([UInt8])
        /// Sends a zero byte every 5 ms until the connection ends.
        case trickle
        case close
        case reset

        package static func send(_ text: String) -> Step { .send(Array(text.utf8)) }
    }

    /// The steps that answer a request.
    package struct Answer: Sendable, ExpressibleByArrayLiteral {
        package let steps: [Step]?

        /// Leaves the request unanswered until the test changes the answer.
        package static let hang = Answer(steps: nil)

        package init(steps: [Step]?) { self.steps = steps }
        package init(arrayLiteral steps: Step...) { self.steps = steps }
    }

    /// Returns the answer to a request, given its number (from 0) and its text.
    package typealias Script = @Sendable (_ number: Int, _ request: String) -> Answer

    package struct Request: Sendable, Equatable {
        /// The head and the body.
        package let text: String

        package init(text: String) { self.text = text }

        /// The value of a header field, given its lower-case name, or of `:method`, `:path` or `:body`.
        package subscript(name: String) -> String? {
            let parts = text.split(separator: "\r\n\r\n", maxSplits: 1, omittingEmptySubsequences: false)
            let lines = parts[0].components(separatedBy: "\r\n")
            let words = lines[0].components(separatedBy: " ")
            switch name {
            case ":method": return words[0]
            case ":path": return words.count > 1 ? words[1] : nil
            case ":body": return parts.count > 1 ? String(parts[1]) : nil
            default:
                let line = lines.dropFirst().last { $0.lowercased().hasPrefix(name + ":") }
                return line?.dropFirst(name.utf8.count + 1).trimmingCharacters(in: .whitespaces)
            }
        }
    }

    package enum Event: Sendable, Equatable {
        case request(Request)
        /// A client has closed a connection to the origin.
        case disconnected
    }

    private struct Connection {
        let channel: any Channel
        var waiting: [(number: Int, request: Request)] = []
        var isAnswered = false
    }

    private struct State {
        var script: Script
        /// The next answers for each path that has its own answers. The last answer for a path is repeated.
        var answers: [String: [Answer]] = [:]
        var requests: [Request] = []
        var connections: [ObjectIdentifier: Connection] = [:]
        var accepted = 0
        var connectionCounts: [Int] = []
        var events: [Event] = []
        /// The bound socket. Nil once the origin listens.
        var socket: CInt?
        var listener: (any Channel)?

        mutating func takeAnswer(to request: Request, _ number: Int) -> Answer {
            guard let path = request[":path"], let remaining = answers[path], let first = remaining.first else {
                return script(number, request.text)
            }
            if remaining.count > 1 { answers[path]?.removeFirst() }
            return first
        }

        /// Removes the waiting requests that can be answered now, and returns the steps of their answers.
        mutating func takeSteps() -> [(channel: any Channel, steps: [Step])] {
            var ready: [(channel: any Channel, steps: [Step])] = []
            for (id, connection) in connections {
                for (number, request) in connection.waiting {
                    guard let steps = takeAnswer(to: request, number).steps else { break }
                    connections[id]?.waiting.removeFirst()
                    connections[id]?.isAnswered = true
                    ready.append((connection.channel, steps))
                    if steps.contains(where: \.endsConnection) {
                        connections[id] = nil
                        break
                    }
                }
            }
            return ready
        }
    }

    package let port: Int
    /// All events. Asynchronous tests read these instead of calling ``event(until:)``.
    package let events: AsyncStream<Event>
    private let eventContinuation: AsyncStream<Event>.Continuation
    private let eventCount = DispatchSemaphore(value: 0)
    private let state: Mutex<State>

    /// Binds a port. Connections are refused until ``listen()``.
    package init(script: @escaping Script) throws {
        let (socket, port) = try LoopbackPort.reserve()
        self.port = port
        state = Mutex(State(script: script, socket: socket))
        (events, eventContinuation) = AsyncStream.makeStream()
    }

    package convenience init(_ answer: Answer = .hang) throws { try self.init { _, _ in answer } }

    /// Returns an origin that accepts connections.
    package static func listening(_ answer: Answer) throws -> RawOrigin { try listening { _, _ in answer } }

    package static func listening(script: @escaping Script) throws -> RawOrigin {
        let origin = try RawOrigin(script: script)
        origin.listen()
        return origin
    }

    /// Runs `body` with an origin that accepts connections.
    package static func serve<Value>(
        _ script: @escaping Script, _ body: (RawOrigin) async throws -> Value
    ) async throws -> Value {
        let origin = try listening(script: script)
        defer { origin.stop() }
        return try await body(origin)
    }

    /// The URL of the path `/`.
    package var url: String { "http://127.0.0.1:\(port)/" }

    /// Starts to accept connections.
    package func listen() {
        guard let socket = state.withLock({ $0.socket.take() }) else { return }
        let listener = try? ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { [self] channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(self))
                }
            }
            .withBoundSocket(socket).wait()
        state.withLock { $0.listener = listener }
    }

    // MARK: Answers

    /// Changes the answer to all requests, including unanswered ones, except requests for paths that have their own
    /// answers.
    package func answer(_ answer: Answer) {
        state.withLock { $0.script = { _, _ in answer } }
        performSteps()
    }

    /// Changes the answer to requests for `path`, which includes the query.
    package func answer(_ answer: Answer, to path: String) { self.answer(sequence: [answer], to: path) }

    /// Changes the answers to the next requests for `path`, which includes the query. The last answer is repeated.
    package func answer(sequence answers: [Answer], to path: String) {
        state.withLock { $0.answers[path] = answers }
        performSteps()
    }

    private func performSteps() {
        for (channel, steps) in state.withLock({ $0.takeSteps() }) {
            Step.perform(steps, on: channel)
        }
    }

    /// Sends more bytes over all connections on which a request was answered.
    package func send(_ bytes: [UInt8]) {
        let answered = state.withLock { $0.connections.values.filter(\.isAnswered).map(\.channel) }
        for channel in answered { Step.perform([.send(bytes)], on: channel) }
    }

    package func send(_ text: String) { send(Array(text.utf8)) }

    /// Closes all connections.
    package func disconnect() {
        let channels = state.withLock { state in
            defer { state.connections = [:] }
            return state.connections.values.map(\.channel)
        }
        for channel in channels { channel.close(promise: nil) }
    }

    /// Stops listening and closes all connections.
    package func stop() {
        let (socket, listener) = state.withLock { ($0.socket.take(), $0.listener.take()) }
        if let socket { close(socket) }
        try? listener?.close().wait()
        disconnect()
    }

    // MARK: Requests and events

    /// The texts of all requests.
    package var requests: [String] { state.withLock { $0.requests.map(\.text) } }

    /// For each request, the number of connections that had been opened when it arrived.
    package var connectionCounts: [Int] { state.withLock { $0.connectionCounts } }

    /// Waits for the next event.
    package func event(until deadline: Deadline = .usual) throws -> Event {
        guard eventCount.wait(timeout: .now() + .milliseconds(Int(deadline.milliseconds))) == .success else {
            throw HarnessError("no event at the origin")
        }
        return state.withLock { $0.events.removeFirst() }
    }

    /// Waits for the next request.
    @discardableResult
    package func request(until deadline: Deadline = .usual) throws -> Request {
        while true {
            if case .request(let request) = try event(until: deadline) { return request }
        }
    }

    /// Waits until a client closes a connection.
    package func disconnection(until deadline: Deadline = .usual) throws {
        while try event(until: deadline) != .disconnected {}
    }

    /// Discards the events that ``event(until:)`` has not returned. ``events`` still yields them.
    package func discardEvents() {
        while eventCount.wait(timeout: .now()) == .success { state.withLock { _ = $0.events.removeFirst() } }
    }

    private func add(_ event: Event) {
        state.withLock { $0.events.append(event) }
        eventCount.signal()
        eventContinuation.yield(event)
    }

    // MARK: Connections

    private func connected(_ channel: any Channel) {
        state.withLock { state in
            state.connections[ObjectIdentifier(channel)] = Connection(channel: channel)
            state.accepted += 1
        }
    }

    private func received(_ request: Request, on channel: any Channel) {
        state.withLock { state in
            state.connections[ObjectIdentifier(channel)]?.waiting.append((state.requests.count, request))
            state.requests.append(request)
            state.connectionCounts.append(state.accepted)
        }
        performSteps()
        add(.request(request))
    }

    private func disconnected(_ channel: any Channel) {
        let isByClient = state.withLock { $0.connections.removeValue(forKey: ObjectIdentifier(channel)) != nil }
        if isByClient { add(.disconnected) }
    }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let origin: RawOrigin
        private var input: [UInt8] = []

        init(_ origin: RawOrigin) { self.origin = origin }

        func channelActive(context: ChannelHandlerContext) { origin.connected(context.channel) }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            input += unwrapInboundIn(data).readableBytesView
            while let end = input.firstRange(of: Array("\r\n\r\n".utf8)) {
                let head = Request(text: String(decoding: input[..<end.upperBound], as: UTF8.self))
                let count = end.upperBound + (head["content-length"].flatMap { Int($0) } ?? 0)
                guard input.count >= count else { return }
                origin.received(
                    Request(text: String(decoding: input[..<count], as: UTF8.self)), on: context.channel)
                input.removeFirst(count)
            }
        }

        func channelInactive(context: ChannelHandlerContext) { origin.disconnected(context.channel) }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
    }
}

extension RawOrigin.Step {
    fileprivate var endsConnection: Bool {
        switch self {
        case .close, .reset: true
        case .send, .trickle: false
        }
    }

    fileprivate static func perform(_ steps: [RawOrigin.Step], on channel: any Channel) {
        var written = channel.eventLoop.makeSucceededVoidFuture()
        for step in steps {
            switch step {
            case .send(let bytes): written = channel.writeAndFlush(ByteBuffer(bytes: bytes))
            // Closes only after the write, because closing a channel discards unwritten bytes.
            case .close: written.whenComplete { _ in channel.close(promise: nil) }
            case .reset:
                // Closing a socket with a linger time of zero resets the connection (socket(7)).
                written.flatMap { _ in
                    (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
                        ?? channel.eventLoop.makeSucceededVoidFuture()
                }.whenComplete { _ in channel.close(promise: nil) }
            case .trickle:
                channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(5)) { task in
                    guard channel.isActive else { return task.cancel() }
                    channel.writeAndFlush(ByteBuffer(bytes: [0]), promise: nil)
                }
            }
        }
    }
}
