import Glibc
import LarderJSON
import LarderProtocol
import NIOCore
import NIOPosix

extension LarderClient {
    /// Creates a client that reads a JSON file instead of an agent, for development on a machine without one.
    ///
    /// ```swift
    /// let client = try LarderClient(contentsOf: "development.json")
    /// for try await snapshot in client.config.snapshots(at: "search") {
    ///     print(snapshot.value ?? .null)  // now, and whenever the file changes
    /// }
    /// ```
    ///
    /// Values, snapshots, streams of snapshots, waits, and view models and repositories that only read follow the file
    /// within a tenth of a second. Each change of the document is a new revision. While the file is missing or is not a
    /// JSON object, the last good document stays, the state of snapshots is `stale`, and the event
    /// ``LarderClientEvent/invalidFile(_:)`` has the reason. All other calls throw `unsupported`. The file is read only while the client is used, on a thread that all such clients share.
    /// - Parameters:
    ///   - path: the path of the file, whose content is an object. As in the layers of an agent, members that are null
    ///     count as absent.
    ///   - namespace: the name of the namespace that the file contains. Others fail with `unknownNamespace`.
    ///   - configuration: timeouts and limits of the client.
    /// - Throws: `invalidArgument` if the file cannot be read, or if its content is not an object.
    public convenience init(
        contentsOf path: String, namespace: String = LarderClient.defaultNamespace,
        configuration: Configuration = Configuration()
    ) throws(LarderClientError) {
        let agent = try FileAgent(path, namespace, report: configuration.onEvent ?? LarderClientEvent.printInvalidFile)
        self.init(
            transport: Transport(
                name: path, open: { () throws(LarderSocket.ConnectError) in try agent.open() },
                methods: [ConfigGet.name, ConfigWait.name, ConfigSubscribe.name]),
            configuration: configuration)
    }
}

/// Answers the requests of one client from a file, over socketpair(2), as the agent does.
private struct FileAgent: Sendable {
    /// The files are read on this thread. It is not that of the connections, which must not wait for a disk.
    private static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    private let document: NIOLoopBoundBox<FollowedFile>

    init(
        _ path: String, _ namespace: String, report: @escaping @Sendable (LarderClientEvent) -> Void
    ) throws(LarderClientError) {
        document = .makeBoxSendingValue(
            try FollowedFile(path, namespace, report: report), eventLoop: Self.group.any())
    }

    /// Returns the socket of a new client.
    func open() throws(LarderSocket.ConnectError) -> CInt {
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, type, 0, &ends) == 0 else { throw LarderSocket.ConnectError(code: errno) }
        _ = ClientBootstrap(group: Self.group)
            .channelInitializer { [document] channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(FileConnection(document.value))
                }
            }
            .withConnectedSocket(ends[1])
        return ends[0]
    }
}

/// A JSON file, and the connections that follow it. Used on one event loop.
private final class FollowedFile {
    private let path: String
    private let namespace: String
    private let epoch = String(UInt64.random(in: 0...UInt64.max), radix: 16)
    private var value = JSONValue.emptyObject
    private var revision = 0
    private var state = ConfigState.fresh
    /// Why the file could not be used when it was last read; nil if it could.
    private var problem: LarderClientError?
    private let report: @Sendable (LarderClientEvent) -> Void
    /// The content of the file when it was last read.
    private var text: [UInt8] = []
    private var connections: [ObjectIdentifier: FileConnection] = [:]
    private var timer: Scheduled<Void>?

    init(
        _ path: String, _ namespace: String, report: @escaping @Sendable (LarderClientEvent) -> Void
    ) throws(LarderClientError) {
        (self.path, self.namespace, self.report) = (path, namespace, report)
        try read()
    }

    func add(_ connection: FileConnection, on eventLoop: any EventLoop) {
        connections[ObjectIdentifier(connection)] = connection
        if connections.count == 1 { poll(on: eventLoop) }
    }

    func remove(_ connection: FileConnection) {
        connections[ObjectIdentifier(connection)] = nil
        if connections.isEmpty { timer?.cancel() }
    }

    private func poll(on eventLoop: any EventLoop) {
        timer = eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(100)) {
            self.refresh()
            if !self.connections.isEmpty { self.poll(on: eventLoop) }
        }
    }

    /// Returns the value at a path of the namespace.
    func current(_ namespace: String, _ path: JSONPath) throws(WireError) -> ConfigWait.Result {
        guard namespace.isSpelled(as: self.namespace) else {
            throw WireError(
                .unknownNamespace,
                "the namespace of the file is \"\(self.namespace)\"; LarderClient(contentsOf:namespace:) sets another")
        }
        return ConfigWait.Result(value: value.value(at: path), revision: revision, epoch: epoch, state: state)
    }

    /// Reads the file, and notifies the connections if the document differs. Reports each reason why the file cannot be
    /// used once.
    func refresh() {
        let before = revision
        do throws(LarderClientError) {
            try read()
            problem = nil
        } catch {
            state = .stale
            if error != problem { report(.invalidFile(error)) }
            problem = error
        }
        if revision != before { for connection in connections.values { connection.documentChanged() } }
    }

    private func read() throws(LarderClientError) {
        func failure(_ reason: String) -> LarderClientError {
            LarderClientError(
                .invalidArgument, reason, advice: "correct the file, or name one whose content is a JSON object")
        }
        // O_NONBLOCK: a FIFO at this path must not block the thread.
        let descriptor = Glibc.open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { throw failure("cannot read \(path): \(String(cString: strerror(errno)))") }
        defer { close(descriptor) }
        var (newest, chunk) = ([UInt8](), [UInt8](repeating: 0, count: 1 << 16))
        while true {
            let count = Glibc.read(descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("cannot read \(path): \(String(cString: strerror(errno)))") }
            if count == 0 { break }
            newest += chunk[..<count]
        }
        if newest == text, state == .fresh, revision > 0 { return }
        text = newest
        let document: JSONValue
        do { document = try JSONValue(parsing: newest) } catch { throw failure("\(path) is not valid JSON: \(error)") }
        guard document.kind == .object else { throw failure("the content of \(path) is not a JSON object") }
        state = .fresh
        let merged = MergePatch.apply(document, to: .emptyObject)
        if merged != value || revision == 0 { (value, revision) = (merged, revision + 1) }
    }
}

/// One client of a ``FileAgent``.
private final class FileConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let document: FollowedFile
    private var framer = LineFramer(maximumLineBytes: 1 << 24)
    private var context: ChannelHandlerContext?
    /// The subscriptions, each with the number of events and the last value that was sent.
    private var subscriptions: [Int: (parameters: ConfigSubscribe.Parameters, sequence: Int, value: JSONValue?)] = [:]
    private var lastSubscription = 0
    private var waits: [RequestID: (parameters: ConfigWait.Parameters, timer: Scheduled<Void>?)] = [:]

    init(_ document: FollowedFile) { self.document = document }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        document.add(self, on: context.eventLoop)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        document.remove(self)
        for wait in waits.values { wait.timer?.cancel() }
        self.context = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // Each reply is about the content that the file has when the request arrives.
        document.refresh()
        unwrapInboundIn(data).withUnsafeReadableBytes { bytes in
            var offset = 0
            while let line = framer.next(in: bytes, at: &offset) {
                switch line {
                case .whole(let text): receive(Array(text))
                case .assembled(let text): receive(text)
                case .tooLong: context.close(promise: nil)
                }
            }
        }
    }

    func documentChanged() {
        for id in subscriptions.keys.sorted() { try? sendEvent(.change, to: id) }
        for (id, wait) in waits {
            guard let now = try? document.current(wait.parameters.namespace, wait.parameters.path),
                isMet(wait.parameters.condition, now)
            else { continue }
            waits.removeValue(forKey: id)?.timer?.cancel()
            reply(id, now)
        }
    }

    private func receive(_ line: [UInt8]) {
        guard let message = try? JSONValue(parsing: line), let request = try? Request(message) else { return }
        do throws(WireError) {
            if let id = request.id { try answer(request, id) } else { try receive(notification: request) }
        } catch {
            if let id = request.id { fail(id, error) }
        }
    }

    private func answer(_ request: Request, _ id: RequestID) throws(WireError) {
        switch request.method.string {
        case ConfigGet.name:
            let parameters = try ConfigGet.Parameters(params: request.params)
            let now = try document.current(parameters.namespace, parameters.path)
            guard let value = now.value else {
                throw WireError(.notFound, "no value at \"\(parameters.path)\" in the file")
            }
            reply(id, ConfigGet.Result(value: value, revision: now.revision, epoch: now.epoch, state: now.state))
        case ConfigWait.name:
            let parameters = try ConfigWait.Parameters(params: request.params)
            let now = try document.current(parameters.namespace, parameters.path)
            if isMet(parameters.condition, now) { return reply(id, now) }
            let timer = parameters.timeoutMilliseconds.flatMap { milliseconds in
                context?.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(milliseconds))) {
                    self.waits[id] = nil
                    self.fail(id, WireError(.timeout, "the condition did not hold within \(milliseconds) ms"))
                }
            }
            waits[id] = (parameters, timer)
        case ConfigSubscribe.name:
            let parameters = try ConfigSubscribe.Parameters(params: request.params)
            let now = try document.current(parameters.namespace, parameters.path)
            lastSubscription += 1
            let (number, epoch) = (lastSubscription, now.epoch)
            reply(
                id, ConfigSubscribe.Result(subscription: number, revision: now.revision, epoch: epoch, state: now.state)
            )
            let isCurrent = parameters.since == now.revision && parameters.epoch ?? epoch == epoch
            subscriptions[number] = (parameters, 0, isCurrent ? now.value : nil)
            if !isCurrent { try sendEvent(.initial, to: number) }
        default: throw WireError(.methodNotFound, "a file has no such method")
        }
    }

    private func receive(notification: Request) throws(WireError) {
        switch notification.method.string {
        case ConfigUnsubscribe.name:
            subscriptions[try ConfigUnsubscribe.Parameters(params: notification.params).subscription] = nil
        case RequestCancel.name:
            let id = try RequestCancel.Parameters(params: notification.params).id
            guard let wait = waits.removeValue(forKey: id) else { return }
            wait.timer?.cancel()
            fail(id, WireError(.cancelled, "the request was cancelled"))
        default: break
        }
    }

    private func isMet(_ condition: ConfigWait.Condition, _ now: ConfigWait.Result) -> Bool {
        switch condition {
        case .equals(let wanted): now.value == wanted
        case .notEquals(let unwanted): now.value != unwanted
        case .exists(let isWanted): now.exists == isWanted
        case .revisionAtLeast(let wanted, let epoch): now.revision >= wanted || epoch ?? now.epoch != now.epoch
        }
    }

    /// Sends the value of a subscription, unless a change has left it as it was.
    private func sendEvent(_ reason: ConfigEvent.Reason, to id: Int) throws(WireError) {
        guard let parameters = subscriptions[id]?.parameters else { return }
        let now = try document.current(parameters.namespace, parameters.path)
        if reason == .change, now.value == subscriptions[id]?.value { return }
        subscriptions[id]?.value = now.value
        subscriptions[id]?.sequence += 1
        // No mode needs a patch: `patch` accepts whole values, too.
        let body = ConfigEvent.body(
            namespace: parameters.namespace, epoch: now.epoch, revision: now.revision, state: now.state,
            content: parameters.mode == .revision ? .revision(reason) : .snapshot(now.value, reason))
        let sequence = subscriptions[id]?.sequence ?? 0
        write { writer in
            // Without the LF at the end.
            body.dropLast().withUnsafeBytes {
                ConfigEvent.append(subscription: id, sequence: sequence, skipped: 0, body: $0, to: &writer)
            }
        }
    }

    private func reply(_ id: RequestID, _ result: some WireResult) {
        write { Envelope.writeResult(id: id, to: &$0) { result.write(to: &$0) } }
    }

    private func fail(_ id: RequestID, _ error: WireError) {
        write { Envelope.writeError(id: id, error, to: &$0) }
    }

    private func write(_ message: (inout JSONWriter) -> Void) {
        var writer = JSONWriter()
        message(&writer)
        writer.endLine()
        context?.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: writer.bytes)), promise: nil)
    }
}
