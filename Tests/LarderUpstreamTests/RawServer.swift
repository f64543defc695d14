import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// A TCP server on 127.0.0.1 that answers every request with bytes of the test's choosing, right or wrong.
///
/// HTTP libraries refuse to send what these tests need: short bodies, broken chunks, silence.
final class RawServer: Sendable {
    /// What to do when a complete request head has come.
    enum Step: Sendable {
        /// Sends bytes.
        case send(String)
        /// Sends bytes that are not text.
        case sendBytes([UInt8])
        /// Closes the connection in the orderly way.
        case close
        /// Resets the connection.
        case reset
        /// Keeps the connection, for ``RawServer/send(_:)``.
        case keep
        /// Sends one byte again and again, every few milliseconds, until the connection ends.
        case trickle
    }

    /// What happened, in order.
    enum Event: Sendable, Equatable {
        case request(String)
        case closed
    }

    let port: Int
    /// Everything that happened on all connections.
    let events: AsyncStream<Event>
    private let channel: any Channel
    private let requests = Mutex<[String]>([])
    private let kept = Mutex<[any Channel]>([])
    private let script: @Sendable (Int, String) -> [Step]
    private let continuation: AsyncStream<Event>.Continuation

    /// Starts a server that plays `script(number of the request from 0, its text)` for each request.
    static func start(_ script: @escaping @Sendable (Int, String) -> [Step]) async throws -> RawServer {
        let box = Mutex<RawServer?>(nil)
        let shared = SharedBox(box)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(ScriptHandler(shared))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let server = RawServer(channel, script)
        shared.value.withLock { $0 = server }
        return server
    }

    private init(_ channel: any Channel, _ script: @escaping @Sendable (Int, String) -> [Step]) {
        self.channel = channel
        self.script = script
        port = channel.localAddress?.port ?? 0
        (events, continuation) = AsyncStream.makeStream()
    }

    /// Starts a server that gives one answer to everything and keeps the connection open.
    static func answering(_ text: String) async throws -> RawServer {
        try await start { _, _ in [.send(text)] }
    }

    /// The address of the server's root.
    var url: String { "http://127.0.0.1:\(port)/" }

    /// Sends bytes over all the connections that were kept.
    func send(_ text: String) {
        for channel in kept.withLock({ $0 }) { channel.writeAndFlush(ByteBuffer(string: text), promise: nil) }
    }

    /// Closes all the connections that were kept.
    func closeKept() {
        for channel in kept.withLock({ $0 }) { channel.close(promise: nil) }
    }

    fileprivate func keep(_ channel: any Channel) { kept.withLock { $0.append(channel) } }

    /// The requests that came, with their bodies.
    var received: [String] { requests.withLock { $0 } }

    func stop() async { try? await channel.close().get() }

    fileprivate func steps(for request: String) -> [Step] {
        let number = requests.withLock { requests in
            requests.append(request)
            return requests.count - 1
        }
        continuation.yield(.request(request))
        return script(number, request)
    }

    fileprivate func connectionClosed() { continuation.yield(.closed) }
}

/// The way from a connection's handler to a server that exists only after it is bound.
private final class SharedBox: Sendable {
    let value: Mutex<RawServer?>
    init(_ value: consuming Mutex<RawServer?>) { self.value = value }
}

private final class ScriptHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let shared: SharedBox
    private var head = ""

    init(_ shared: SharedBox) { self.shared = shared }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        head += String(buffer: unwrapInboundIn(data))
        guard Self.isComplete(head), let server = shared.value.withLock({ $0 }) else { return }
        let request = head
        head = ""
        for step in server.steps(for: request) { play(step, context) }
    }

    private static func isComplete(_ request: String) -> Bool {
        guard let end = request.range(of: "\r\n\r\n") else { return false }
        let length = request.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
        let expected = length.flatMap { Int($0.drop { $0 != ":" }.dropFirst().drop { $0 == " " }) } ?? 0
        return request[end.upperBound...].utf8.count >= expected
    }

    func channelInactive(context: ChannelHandlerContext) {
        shared.value.withLock { $0 }?.connectionClosed()
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func play(_ step: RawServer.Step, _ context: ChannelHandlerContext) {
        switch step {
        case .send(let text):
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
        case .sendBytes(let bytes):
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)), promise: nil)
        case .keep:
            shared.value.withLock { $0 }?.keep(context.channel)
        case .close:
            context.close(promise: nil)
        case .reset:
            // An immediate close with a linger time of zero is a reset (socket(7)).
            let channel = context.channel
            (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
                .whenComplete { _ in channel.close(promise: nil) }
        case .trickle:
            let channel = context.channel
            context.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(5)) { task in
                guard channel.isActive else { return task.cancel() }
                channel.writeAndFlush(ByteBuffer(string: " "), promise: nil)
            }
        }
    }
}
