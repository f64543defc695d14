import Foundation
import NIOCore
import NIOPosix
import Synchronization

/// An origin on 127.0.0.1 that says whatever a test wants, byte by byte: HTTP libraries refuse to send most of it.
final class RawOrigin: Sendable {
    enum Step: Sendable {
        case send([UInt8])
        /// One byte again and again until the connection ends.
        case trickle
        case close
        case reset
    }

    private struct State {
        var requests: [String] = []
        var channel: (any Channel)?
    }

    /// A connection of a client has ended.
    let closed: AsyncStream<Void>
    private let closing: AsyncStream<Void>.Continuation
    private let script: @Sendable (Int, String) -> [Step]
    private let state = Mutex(State())

    private init(_ script: @escaping @Sendable (Int, String) -> [Step]) {
        self.script = script
        (closed, closing) = AsyncStream.makeStream()
    }

    /// Runs a body with an origin that plays `script(number of the request, counted from 0, its head)`.
    static func serve<Value>(
        _ script: @escaping @Sendable (Int, String) -> [Step], _ body: (RawOrigin) async throws -> Value
    ) async throws -> Value {
        let origin = RawOrigin(script)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Handler(origin))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        origin.state.withLock { $0.channel = channel }
        do {
            let value = try await body(origin)
            try? await channel.close().get()
            return value
        } catch {
            try? await channel.close().get()
            throw error
        }
    }

    var port: Int { state.withLock { $0.channel?.localAddress?.port ?? 0 } }
    /// The heads of the requests that came.
    var requests: [String] { state.withLock { $0.requests } }
    /// The URL of an image there.
    func url(_ name: String = "image.png") -> String { "http://127.0.0.1:\(port)/\(name)" }

    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer
        private let origin: RawOrigin
        private var head: [UInt8] = []

        init(_ origin: RawOrigin) { self.origin = origin }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            head += Array(unwrapInboundIn(data).readableBytesView)
            guard head.suffix(4) == [13, 10, 13, 10] else { return }
            let text = String(decoding: head, as: UTF8.self)
            head = []
            let number = origin.state.withLock { state in
                state.requests.append(text)
                return state.requests.count - 1
            }
            for step in origin.script(number, text) { play(step, context.channel) }
        }

        func channelInactive(context: ChannelHandlerContext) { origin.closing.yield() }

        func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

        private func play(_ step: Step, _ channel: any Channel) {
            switch step {
            case .send(let bytes): channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
            case .close: channel.close(promise: nil)
            case .reset:
                // Closing at once with a linger time of zero is a reset (socket(7)).
                (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
                    .whenComplete { _ in channel.close(promise: nil) }
            case .trickle:
                channel.eventLoop.scheduleRepeatedTask(initialDelay: .zero, delay: .milliseconds(5)) { task in
                    guard channel.isActive else { return task.cancel() }
                    channel.writeAndFlush(ByteBuffer(bytes: [0]), promise: nil)
                }
            }
        }
    }
}

extension RawOrigin.Step {
    static func text(_ text: String) -> Self { .send(Array(text.utf8)) }

    /// A head of these lines, the status first.
    static func head(_ lines: String...) -> Self { .text(lines.map { $0 + "\r\n" }.joined() + "\r\n") }

    /// A whole answer.
    static func ok(_ body: [UInt8], _ lines: String...) -> Self {
        let head = ["HTTP/1.1 200 OK", "Content-Length: \(body.count)"] + lines
        return .send(Array((head.map { $0 + "\r\n" }.joined() + "\r\n").utf8) + body)
    }

    /// A status without a body.
    static func status(_ status: String, _ lines: String...) -> Self {
        .text((["HTTP/1.1 \(status)", "Content-Length: 0"] + lines).map { $0 + "\r\n" }.joined() + "\r\n")
    }

    static func chunk(_ bytes: [UInt8]) -> Self {
        .send(Array((String(bytes.count, radix: 16) + "\r\n").utf8) + bytes + [13, 10])
    }
}
