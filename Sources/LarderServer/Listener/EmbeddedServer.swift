package import LarderEventLoop
import NIOCore

/// A server without a listening socket, for an agent inside a test. It serves the connected sockets that its owner
/// passes, on one event loop.
package final class EmbeddedServer: Sendable {
    private let context: ServerContext
    private let registry = ConnectionRegistry()
    private let loop: any ServerEventLoop
    private let own: NIOLoopBound<LoopContext>

    /// - Parameters:
    ///   - loop: serves the connections. It runs on the thread of `epollLoop`
    ///   - epollLoop: watches the sockets
    package init(context: ServerContext, loop: any ServerEventLoop, epollLoop: EpollLoop) async throws {
        self.context = context
        self.loop = loop
        let registry = registry
        own = try await epollLoop.submit {
            NIOLoopBound(
                LoopContext(
                    LoopLoad(eventLoop: loop), epollLoop.epoll, server: context, methods: .agent, registry: registry),
                eventLoop: loop)
        }.get()
        registry.add(own)
    }

    /// Serves a connected socket, and takes ownership of it.
    package func serve(_ socket: CInt) {
        let own = own
        loop.execute { own.value.accept(socket) }
    }

    /// Applies new access rules to all later requests. Subscriptions and pending requests that the new rules do not
    /// permit end soon afterwards.
    package func use(_ rules: AccessRules) {
        guard context.use(rules) else { return }
        let own = own
        loop.execute {
            for connection in own.value.connections.values { AccessReview(connection: connection).run() }
        }
    }

    /// Closes all connections.
    package func disconnectAll() async { await registry.closeAll() }

    /// Closes all connections. ``serve(_:)`` must not be called after this.
    package func stop() async {
        await registry.closeAll()
        registry.removeLoops()
    }
}
