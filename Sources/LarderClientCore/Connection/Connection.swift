import CLinuxShims
import Glibc
import LarderJSON
import LarderProtocol
package import NIOCore
import NIOPosix
import Synchronization

final class Connection: Sendable {
    private let channel: any Channel
    private let handler: NIOLoopBound<ConnectionHandler>
    private let usable: UseFlag
    private let lastID = Atomic<Int>(0)
    private let ending = ConnectionEnd()

    /// All clients in the process share one event loop thread, because their work is small.
    private static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    /// The event loop on which a promise can be created before a connection exists.
    static var eventLoop: any EventLoop { group.any() }

    private init(channel: any Channel, handler: ConnectionHandler) {
        self.channel = channel
        usable = handler.isUsable
        self.handler = NIOLoopBound(handler, eventLoop: channel.eventLoop)
        channel.closeFuture.whenComplete { [ending] _ in ending.finish() }
    }

    deinit { close(.closed) }

    /// - Parameters:
    ///   - maximumRequestsInFlight: the maximum number of requests that wait for a reply at the same time
    ///   - maximumReplyBytes: the maximum length of a reply or event in bytes
    ///   - monitor: counts what happens on the connection
    static func open(
        _ transport: Transport, maximumRequestsInFlight: Int, maximumReplyBytes: Int, monitor: ClientMonitor
    ) -> EventLoopFuture<Connection> {
        let descriptor: CInt
        do throws(LarderSocket.ConnectError) {
            descriptor = try transport.open()
        } catch {
            return eventLoop.makeFailedFuture(LarderClientError.unreachable(transport.name, errno: error.code))
        }
        return ClientBootstrap(group: group)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    for handler in transport.handlers() { try channel.pipeline.syncOperations.addHandler(handler) }
                    try channel.pipeline.syncOperations.addHandler(
                        ConnectionHandler(
                            maximumRequestsInFlight: maximumRequestsInFlight, maximumReplyBytes: maximumReplyBytes,
                            monitor: monitor, isUsable: UseFlag(), schedule: transport.schedule))
                }
            }
            .withConnectedSocket(descriptor)
            .flatMapThrowing { channel in
                Connection(
                    channel: channel,
                    handler: try channel.pipeline.syncOperations.handler(type: ConnectionHandler.self))
            }
            .flatMapErrorThrowing { error in
                throw LarderClientError.unreachable(transport.name, errno: Self.systemError(error))
            }
    }

    /// False once the connection has ended, or the agent has announced that the agent will close the connection.
    var isUsable: Bool { usable.value.load(ordering: .relaxed) }

    /// False once the connection has ended. The subscriptions and leases of the connection have then ended as well.
    var isOpen: Bool { channel.isActive }

    /// A stream without elements that ends with the connection.
    var end: AsyncStream<Never> { ending.stream() }

    /// Sends a request and waits for its reply.
    ///
    /// If the task is cancelled or the timeout passes, this method throws at once, and the agent is asked to cancel the
    /// request. A request that the agent would reject because of its size or nesting is not sent.
    /// - Parameter waitsForNetwork: whether the parameters make the agent wait for the network, although the method
    ///   otherwise does not wait.
    func call(
        _ method: String, timeout: Duration?, waitsForNetwork: Bool = false, purpose: CallPurpose,
        params: (inout JSONWriter) -> Void
    ) async -> CallOutcome {
        let id = lastID.wrappingAdd(1, ordering: .relaxed).newValue
        let line = ConnectionHandler.line(id: id, method: method, params)
        if line.readableBytes > RequestLimits.uncheckedBytes, let error = await refusal(of: line, method) {
            return .failure(error)
        }
        let isLong = waitsForNetwork || Self.longMethods.contains(method)
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                onLoop { handler in
                    handler.start(id, method, line, timeout: timeout, isLong: isLong, purpose: purpose) {
                        continuation.resume(returning: $0)
                    }
                }
                // If the task was cancelled before `onLoop`, `onCancel` found no call to cancel, so cancel the call
                // here.
                if Task.isCancelled { cancel(id) }
            }
        } onCancel: {
            cancel(id)
        }
    }

    /// Methods that wait for a condition or for the network, whatever their parameters are.
    private static let longMethods: Set<String> = [
        ConfigWait.name, ConfigRefresh.name, ImageGet.name, ImagePrefetch.name, ImagePin.name,
    ]

    /// Returns the error for a request that the agent would reject because it is nested too deeply or too long. The
    /// agent's reply to such a line would not have the ID of the request.
    private func refusal(of line: ByteBuffer, _ method: String) async -> LarderClientError? {
        // The object of the request itself is one level.
        let depth = RequestLimits.depth(of: line.readableBytesView) - 1
        if depth > RequestLimits.maximumDepth - 1 {
            return LarderClientError(
                .invalidArgument,
                "the parameters of \(method) are nested deeper than \(RequestLimits.maximumDepth - 1) levels",
                advice: "reduce the nesting of the value")
        }
        // The LF at the end does not count.
        let bytes = line.readableBytes - 1
        guard bytes > RequestLimits.defaultLineBytes, method != AgentInfo.name else { return nil }
        // A longer line is rare. The agent is therefore asked each time, because a reload can change the limit. If the
        // agent does not return the limit, the request is sent, and the agent's reply shows what is wrong.
        let info = await call(AgentInfo.name, timeout: .seconds(30), purpose: .answer) { $0.value(.emptyObject) }
        guard case .result(let result) = info, let limit = result["limits"]?["lineBytes"]?.int, bytes > limit else {
            return nil
        }
        return LarderClientError(
            .invalidArgument, "the request \(method) has \(bytes) bytes, and the agent's limit is \(limit)",
            advice: "divide the value, raise limits.lineBytes in the settings, or let the agent read a file")
    }

    /// Ends a call that is still running, and asks the agent to cancel its request.
    private func cancel(_ id: Int) { onLoop { $0.cancel(id) } }

    /// Returns the number of subscriptions; 0 once the connection has ended.
    func subscriptionCount() async -> Int {
        await withCheckedContinuation { continuation in
            onLoop { continuation.resume(returning: $0.subscriptionCount) }
        }
    }

    /// Returns whether a call whose request was written waits for its reply.
    func isAwaitingReply() async -> Bool {
        await withCheckedContinuation { continuation in
            onLoop { continuation.resume(returning: $0.isAwaitingReply) }
        }
    }

    /// Ends a subscription. Returns at once.
    func unsubscribe(_ subscription: Int) { onLoop { $0.unsubscribe(subscription) } }

    /// Releases a lease. Returns at once.
    func release(_ lease: Int) { onLoop { $0.writeRelease(lease) } }

    /// Closes the connection. Returns at once; the calls in flight fail with `error`.
    func close(_ error: LarderClientError) { onLoop { $0.finish(error) } }

    private func onLoop(_ action: @escaping @Sendable (ConnectionHandler) -> Void) {
        channel.eventLoop.execute { [handler] in action(handler.value) }
    }

    /// Waits until the connection is closed. Closes it if the task is cancelled.
    func waitUntilClosed() async {
        await withTaskCancellationHandler {
            try? await channel.closeFuture.get()
        } onCancel: {
            close(.closed)
        }
    }

    private static func systemError(_ error: any Error) -> Int32 {
        switch error {
        case let error as IOError: error.errnoCode
        default: EIO
        }
    }
}

/// The limits of the agent for the line of a request (section 5 of the protocol).
enum RequestLimits {
    /// The maximum nesting depth of a request.
    static let maximumDepth = 128
    /// The agent's default limit for the length of a line.
    static let defaultLineBytes = 1 << 20
    /// A request of this size, including its LF, cannot exceed the limits: each level needs two brackets.
    static let uncheckedBytes = 2 * (maximumDepth + 1)

    /// Returns the nesting depth of valid JSON.
    static func depth(of text: ByteBufferView) -> Int {
        text.withUnsafeBytes { bytes in
            var (depth, deepest, index) = (0, 0, 0)
            while index < bytes.count {
                switch bytes[index] {
                case UInt8(ascii: "{"), UInt8(ascii: "["):
                    depth += 1
                    deepest = max(deepest, depth)
                case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
                case UInt8(ascii: "\""):
                    // Continues after the string.
                    index += 1
                    while index < bytes.count, bytes[index] != UInt8(ascii: "\"") {
                        index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
                    }
                default: break
                }
                index += 1
            }
            return deepest
        }
    }
}

extension LarderClientError {
    static let cancelled = Self(.cancelled, "the task was cancelled")
    static let closed = Self(
        .closed, "the client is closed", advice: "use it within withConnection(_:) or while run() runs")
}

/// How a client reaches its agent.
package struct Transport: Sendable {
    /// Calls a closure on an event loop after a time, unless it is cancelled first.
    package typealias Schedule =
        @Sendable (any EventLoop, TimeAmount, @escaping @Sendable () -> Void) -> Scheduled<Void>

    /// Names the agent in error messages. For a Unix socket it is the path.
    package let name: String
    /// Connects. Returns a socket that does not block, which the caller owns.
    package let open: @Sendable () throws(LarderSocket.ConnectError) -> CInt
    /// Creates the handlers of a connection that are closer to the socket than the client's own handler.
    package let handlers: @Sendable () -> [any ChannelHandler]
    /// The methods that callers may use; nil for all.
    let methods: Set<String>?
    /// Measures the timeouts of calls.
    package let schedule: Schedule

    package init(
        name: String, open: @escaping @Sendable () throws(LarderSocket.ConnectError) -> CInt,
        handlers: @escaping @Sendable () -> [any ChannelHandler] = { [] }, methods: Set<String>? = nil,
        schedule: @escaping Schedule = { $0.scheduleTask(in: $1, $2) }
    ) {
        (self.name, self.open, self.handlers, self.schedule) = (name, open, handlers, schedule)
        self.methods = methods
    }

    /// Throws `unsupported` if callers may not use a method.
    func check(_ method: String) throws(LarderClientError) {
        guard let methods, !methods.contains(method) else { return }
        throw LarderClientError(
            .unsupported,
            "\(method == ConfigOpen.name ? "a mapped snapshot" : method) needs an agent, and this client reads the file "
                + name,
            advice: "start an agent, or use TestAgent of LarderTesting in a test")
    }

    /// Connects to a Unix socket.
    /// - Parameter path: the path of the socket
    static func unixSocket(_ path: String) -> Transport {
        Transport(
            name: path,
            open: { () throws(LarderSocket.ConnectError) in try LarderSocket.connect(path, isBlocking: false) })
    }
}

/// Runs blocking work on a separate thread. If a task did that work, it would block one of the few threads that run
/// tasks, and could delay other tasks.
package func onOwnThread<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { continuation in
        let box = Unmanaged.passRetained(Work { continuation.resume(returning: work()) })
        let failure = larder_start_thread(
            "blocking-work", 0,
            { argument in
                guard let argument else { return nil }
                Unmanaged<Work>.fromOpaque(argument).takeRetainedValue().body()
                return nil
            }, box.toOpaque())
        // If no thread can be created, the work runs in the calling task and blocks one of the threads that run tasks.
        if failure != 0 { box.takeRetainedValue().body() }
    }
}

private final class Work: Sendable {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

/// The streams that end with a connection.
final class ConnectionEnd: Sendable {
    private struct State {
        var hasEnded = false
        var lastID = 0
        var streams: [Int: AsyncStream<Never>.Continuation] = [:]
    }

    private let state = Mutex(State())

    /// Returns a stream without elements that ends with the connection.
    func stream() -> AsyncStream<Never> {
        let (stream, continuation) = AsyncStream.makeStream(of: Never.self)
        let id = state.withLock { state -> Int? in
            if state.hasEnded { return nil }
            state.lastID += 1
            state.streams[state.lastID] = continuation
            return state.lastID
        }
        guard let id else {
            continuation.finish()
            return stream
        }
        // A stream that ends between the lock and this assignment calls the handler at once.
        continuation.onTermination = { [weak self] _ in
            _ = self?.state.withLock { $0.streams.removeValue(forKey: id) }
        }
        return stream
    }

    func finish() {
        let streams = state.withLock { state in
            state.hasEnded = true
            defer { state.streams = [:] }
            return state.streams
        }
        for continuation in streams.values { continuation.finish() }
    }
}
