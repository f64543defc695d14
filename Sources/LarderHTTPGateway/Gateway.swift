import Glibc
package import LarderClientCore
package import LarderSystemd
package import Logging
package import NIOCore
import NIOPosix

/// The gateway: serves the values and flags of an agent's namespaces over HTTP.
package final class Gateway: Sendable {
    private let group: MultiThreadedEventLoopGroup
    private let core: NIOLoopBound<GatewayCore>
    private let listeners: [any Channel]
    private let followers: [Task<Void, Never>]
    private let notifier = ServiceNotifier()

    /// The addresses on which the gateway listens.
    package var addresses: [SocketAddress] { listeners.compactMap(\.localAddress) }

    /// Starts to serve.
    /// - Parameters:
    ///   - sockets: the sockets from systemd; if empty, the gateway listens on the address of the settings
    /// - Throws: ``GatewaySettingsError`` if the settings do not permit a socket, or an error of NIO
    package init(
        _ settings: GatewaySettings, sockets: [ActivatedSocket], client: LarderClient, logger: Logger
    ) async throws {
        let access = try AccessControl(settings)
        let maxConnections = settings.connections(withDescriptors: Self.maxDescriptors)
        if maxConnections < settings.maxConnections {
            logger.warning(
                "the limit of open files permits fewer connections than limits.connections; raise LimitNOFILE= in the unit",
                metadata: ["connections": "\(maxConnections)"])
        }
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        let core = try await loop.submit {
            NIOLoopBound(GatewayCore(settings, access, maxConnections: maxConnections, on: loop), eventLoop: loop)
        }.get()
        do {
            listeners = try await Self.listen(settings, sockets, group, core)
        } catch {
            try? await group.shutdownGracefully()
            throw error
        }
        followers = settings.namespaces.map { namespace in
            Task {
                await ServedNamespace.follow(namespace, of: client, logger: logger) { change in
                    loop.execute { core.value.change(namespace.name, change) }
                }
            }
        }
        (self.group, self.core) = (group, core)
        try await loop.flatSubmit { core.value.waitForAnswers() }.get()
        for listener in listeners { try await listener.setOption(.autoRead, value: true).get() }
        _ = try? notifier.ready()
    }

    /// Stops to accept connections, and completes the requests in progress for up to five seconds.
    package func shutDown() async {
        _ = try? notifier.stopping()
        for follower in followers { follower.cancel() }
        for listener in listeners { try? await listener.close() }
        // A follower uses the event loop.
        for follower in followers { await follower.value }
        let core = core
        try? await core.eventLoop.flatSubmit { core.value.shutDown() }.get()
        try? await group.shutdownGracefully()
    }

    /// The number of descriptors that the process may open (getrlimit(2)).
    private static var maxDescriptors: Int {
        var limit = rlimit()
        guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return 1024 }
        return Int(clamping: limit.rlim_cur)
    }

    /// Listens. Connections wait in the backlog until the gateway accepts them.
    private static func listen(
        _ settings: GatewaySettings, _ sockets: [ActivatedSocket], _ group: MultiThreadedEventLoopGroup,
        _ core: NIOLoopBound<GatewayCore>
    ) async throws -> [any Channel] {
        let bootstrap = ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .serverChannelOption(.autoRead, value: false)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try core.value.add(channel) }
            }
        var channels: [any Channel] = []
        for socket in sockets { channels.append(try await bootstrap.withBoundSocket(socket.descriptor).get()) }
        if sockets.isEmpty {
            try settings.check(settings.listen)
            if let path = settings.listen.pathname {
                channels.append(
                    try await bootstrap.bind(unixDomainSocketPath: path, cleanupExistingSocketFile: true).get())
            } else {
                channels.append(try await bootstrap.bind(to: settings.listen).get())
            }
        }
        for channel in channels { try settings.check(channel.localAddress) }
        return channels
    }
}
