import JSON
import LarderWire
import NIOCore

/// Turns a connection away that is one too many: it is told why before it is closed.
final class RefusalHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let error: WireError

    init(_ error: WireError) { self.error = error }

    func channelActive(context: ChannelHandlerContext) {
        var writer = JSONWriter()
        Envelope.writeError(id: .null, error, to: &writer)
        writer.endLine()
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(channel.allocator.buffer(bytes: writer.bytes))).whenComplete { _ in
            channel.close(promise: nil)
        }
    }
}

extension LimitSettings {
    /// What a client is told who is one too many.
    var refusal: WireError {
        WireError(
            .limitExceeded,
            "the agent has \(connections) connections, its limit; close some, or raise "
                + (isBoundByDescriptors
                    ? "the limit of open files that it runs with (LimitNOFILE= of its service, ulimit -n)"
                    : "limits.connections"))
    }
}
