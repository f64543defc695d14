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
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let loop = group.next()
        let core = try await loop.submit {
            NIOLoopBound(GatewayCore(settings, access, on: loop), eventLoop: loop)
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
                    loop.execute { core.value.namespaces[namespace.name].map(change) }
                }
            }
        }
        (self.group, self.core) = (group, core)
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

    /// Listens, and begins to accept connections once all sockets are checked.
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
        if sockets.isEmpty, settings.listen.hasPrefix("/") {
            channels.append(
                try await bootstrap.bind(unixDomainSocketPath: settings.listen, cleanupExistingSocketFile: true).get())
        } else if sockets.isEmpty {
            let colon = settings.listen.lastIndex(of: ":") ?? settings.listen.startIndex
            let host = settings.listen[..<colon].filter { $0 != "[" && $0 != "]" }
            guard let port = UInt16(settings.listen[colon...].dropFirst()) else {
                throw GatewaySettingsError("\"listen\" must end with a port, and not be \"\(settings.listen)\"")
            }
            channels.append(try await bootstrap.bind(to: SocketAddress(ipAddress: host, port: Int(port))).get())
        }
        for channel in channels { try check(channel.localAddress, settings) }
        for channel in channels { try await channel.setOption(.autoRead, value: true).get() }
        return channels
    }

    /// Checks that a socket is a Unix socket, or a loopback port to which access is restricted or explicitly open.
    private static func check(_ address: SocketAddress?, _ settings: GatewaySettings) throws(GatewaySettingsError) {
        if case .unixDomainSocket? = address { return }
        guard let ip = address?.ipAddress, ip == "::1" || ip.hasPrefix("127.") else {
            throw GatewaySettingsError(
                "the gateway serves only loopback addresses and Unix sockets, because it has no TLS; use 127.0.0.1, and a "
                    + "proxy for other hosts")
        }
        if settings.access == .socketPermissions {
            throw GatewaySettingsError(
                "every local user can connect to a TCP port; set \"tokenFile\", \"tokenCredential\" or \"access\": \"anyone\", "
                    + "or use a Unix socket")
        }
    }
}
