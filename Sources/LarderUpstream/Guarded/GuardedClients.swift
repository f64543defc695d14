internal import AsyncHTTPClient
package import NIOCore
internal import Synchronization
import Glibc
package import NIOPosix

/// HTTP clients that connect only to addresses that an ``AddressGuard`` allows, directly or through a proxy.
///
/// A name must not be resolved again after its address has been checked, because the second result can differ (DNS
/// rebinding). AsyncHTTPClient resolves names itself, and offers no way to replace its resolver. However, a client can
/// be given the address of a name for all its requests (`dnsOverride`). The name is still used for `Host`, for TLS
/// server name indication and for the check of the certificate. Therefore each pair of a name and an address has its
/// own client with its own pool of connections; all clients share the threads. Names are resolved for each request, and
/// a connection is reused only for the address that it was opened to.
///
/// As a second check that does not depend on how the library parses a URL, the peer address of each new connection is
/// compared with the checked address before any byte of the request is sent. With a proxy, it is compared with the address
/// of the proxy, which connects to the checked address. If the proxy resolves names, only addresses in URLs are checked.
final class GuardedClients: Sendable {
    private struct Pin: Hashable, Sendable {
        let host: String
        /// Nil if the proxy resolves the name.
        let address: IPAddress?
        let proxy: ProxyRoute?
    }

    private struct Entry: Sendable {
        let client: HTTPClient
        var users: Int
        var lastUse: Int
    }

    private struct State {
        var addressGuard: AddressGuard
        var entries: [Pin: Entry] = [:]
        var uses = 0
        var isShutDown = false
    }

    private let resolver: any HostResolver
    private let maximumClients: Int
    private let eventLoopGroup: (any EventLoopGroup)?
    private let configuration: HTTPClient.Configuration
    /// The tasks of all requests share it.
    private let state: Mutex<State>

    /// The maximum number of addresses of a host that are tried for one request.
    private static let attempts = 3

    /// - Parameters:
    ///   - addressGuard: the allowed addresses
    ///   - configuration: the configuration of each client; redirects are always disabled, because their targets must
    ///     be checked
    ///   - maximumClients: the number of clients above which idle ones are shut down
    ///   - eventLoopGroup: the event loops of the connections; nil for the process-wide group of SwiftNIO
    init(
        addressGuard: AddressGuard, resolver: any HostResolver, configuration: HTTPClient.Configuration,
        maximumClients: Int = 64, eventLoopGroup: (any EventLoopGroup)? = nil
    ) {
        state = Mutex(State(addressGuard: addressGuard))
        self.resolver = resolver
        self.configuration = configuration
        self.maximumClients = maximumClients
        self.eventLoopGroup = eventLoopGroup
    }

    /// Replaces the guard for all later requests. Requests in flight continue; an idle connection to an address that is
    /// no longer allowed is not used again.
    func update(_ addressGuard: AddressGuard) { state.withLock { $0.addressGuard = addressGuard } }

    /// Resolves the host of a URL once, checks the addresses, and runs `body` with a client that can connect only to
    /// the first allowed address. If `body` throws `connectFailed` and there is no proxy, it runs again with a client for
    /// the next allowed address. At most three addresses are tried.
    ///
    /// - Parameter server: the proxy; nil for none
    /// - Throws: the errors of `body`; ``UpstreamError/Code/forbiddenAddress`` if the host has addresses but none is
    ///   allowed; ``UpstreamError/Code/connectFailed`` if the host has no address
    func withClient<Value: Sendable>(
        for url: FetchURL, via server: ProxyServer? = nil, _ body: (ClientRoute) async throws(UpstreamError) -> Value
    ) async throws(UpstreamError) -> Value {
        var failure: UpstreamError?
        let proxy = try await route(via: server)
        for address in try await targets(of: url, via: server).prefix(Self.attempts) {
            let pin = Pin(host: url.host.name, address: address, proxy: proxy)
            let client = try enter(pin)
            do throws(UpstreamError) {
                let value = try await body(ClientRoute(client: client, address: address, proxy: proxy))
                await leave(pin)
                return value
            } catch {
                await leave(pin)
                // Errors after the connection was opened, and the timeouts of `Deadline`, are not retried with another
                // address.
                guard error.code == .connectFailed, proxy == nil, !Task.isCancelled else { throw error }
                failure = error
            }
        }
        throw failure ?? server?.unresolved(url) ?? .unresolved(url)
    }

    /// The address of a proxy. The settings name the proxy, so its address is not checked.
    private func route(via server: ProxyServer?) async throws(UpstreamError) -> ProxyRoute? {
        guard let server else { return nil }
        return ProxyRoute(server: server, address: try await server.address(resolver))
    }

    /// The addresses to connect to, in the order in which they are tried; nil for one that the proxy resolves.
    private func targets(of url: FetchURL, via server: ProxyServer?) async throws(UpstreamError) -> [IPAddress?] {
        guard let server else { return try await allowedAddresses(of: url) }
        if server.resolvesNames, url.host.address == nil { return [nil] }
        let allowed = try await allowedAddresses(of: url)
        // The HTTP client writes an IPv6 address without brackets into its request for a tunnel.
        let usable = allowed.filter(\.isIPv4)
        if usable.isEmpty, !allowed.isEmpty { throw server.onlyIPv6(url) }
        return usable
    }

    /// Cancels all requests and closes all connections. Later requests fail with ``UpstreamError/Code/shutDown``.
    func shutdown() async {
        let clients = state.withLock { state in
            defer { state.entries = [:] }
            state.isShutDown = true
            return state.entries.values.map(\.client)
        }
        // shutdown() throws only if the same client has already been shut down.
        for client in clients { try? await client.shutdown() }
    }

    /// The allowed addresses of the host, in the order in which they are tried; empty if the host has no address.
    /// Throws `forbiddenAddress` if the host has addresses but none is allowed.
    private func allowedAddresses(of url: FetchURL) async throws(UpstreamError) -> [IPAddress] {
        let all: [IPAddress] =
            if let address = url.host.address { [address] } else { try await resolver.addresses(of: url.host.name) }
        let addressGuard = state.withLock { $0.addressGuard }
        let allowed = all.filter(addressGuard.allows)
        if allowed.isEmpty, let first = all.first { try addressGuard.check(first, of: url.host.text) }
        return allowed
    }

    private func enter(_ pin: Pin) throws(UpstreamError) -> HTTPClient {
        let client: HTTPClient? = state.withLock { state in
            guard !state.isShutDown else { return nil }
            state.uses += 1
            let client = state.entries[pin]?.client ?? makeClient(pin)
            state.entries[pin, default: Entry(client: client, users: 0, lastUse: 0)].users += 1
            state.entries[pin]?.lastUse = state.uses
            return client
        }
        guard let client else { throw .shutDown }
        return client
    }

    /// Ends one use of a client. If there are more than `maximumClients` clients, shuts down the least recently used
    /// idle one.
    private func leave(_ pin: Pin) async {
        let surplus: HTTPClient? = state.withLock { state in
            state.entries[pin]?.users -= 1
            guard state.entries.count > maximumClients else { return nil }
            let idle = state.entries.filter { $0.value.users == 0 }.min { $0.value.lastUse < $1.value.lastUse }
            return idle.flatMap { state.entries.removeValue(forKey: $0.key)?.client }
        }
        try? await surplus?.shutdown()
    }

    private func makeClient(_ pin: Pin) -> HTTPClient {
        var configuration = configuration
        configuration.redirectConfiguration = .disallow
        // AsyncHTTPClient gets no other spelling of the host, because `ClientRoute` builds its URLs from `FetchURL`.
        if let address = pin.address { configuration.dnsOverride = [pin.host: address.description] }
        configuration.proxy = pin.proxy.map { $0.server.configuration(at: $0.address) }
        configuration.addRequestHandlers { channel in
            let peer = channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }
            guard let peer, peer == pin.proxy?.address ?? pin.address else {
                throw UpstreamError(.forbiddenAddress, "a connection to \(pin.host) went to an unchecked address")
            }
        }
        return HTTPClient(
            eventLoopGroup: eventLoopGroup ?? HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }
}

/// The result of a test whether a proxy opens tunnels.
package struct ProxyTest: Sendable, Equatable {
    /// The host and port of the proxy.
    package let proxy: String
    /// The host or address, and the port, of the requested tunnel; nil if only a connection to the proxy was opened.
    package var target: String?
    /// The problem and the next step; nil if the proxy opened the tunnel.
    package var problem: String?
    /// Whether the proxy could not be tested, for the reason in ``problem``.
    package var isUntested = false

    /// Requests a tunnel to the server of a URL, and closes it. Without a URL, opens a connection to the proxy.
    ///
    /// - Returns: nil if the URL is invalid or is requested without a proxy
    package static func run(
        _ settings: ProxySettings, for text: String?, resolver: any HostResolver, on group: any EventLoopGroup
    ) async -> ProxyTest? {
        let url = text.flatMap { try? FetchURL(parsing: $0) }
        if text != nil, url == nil { return nil }
        guard
            let named = url.map({ $0.isSecure ? settings.secure : settings.plain }) ?? settings.secure ?? settings.plain
        else { return nil }
        var test = ProxyTest(
            proxy: (named.host.utf8.contains(UInt8(ascii: ":")) ? "[\(named.host)]" : named.host) + ":\(named.port)")
        if let url, settings.exceptions.contains(where: { $0.includes(url.host) }) { return nil }
        let server: ProxyServer
        do throws(UpstreamError) {
            server = try named.read(settings.resolvesNames)
        } catch {
            // --check-settings reports a file that cannot be used. A credential of systemd exists only in the service.
            (test.problem, test.isUntested) = (error.message, true)
            return test
        }
        do throws(UpstreamError) {
            let address = try await server.address(resolver)
            if let url {
                let target = "\(try await server.tunnelHost(of: url, resolver)):\(url.port)"
                test.target = target
                let status = try await server.connecting {
                    try await ConnectProbe.status(of: target, server, at: address, on: group)
                }
                if !(200..<300).contains(status ?? 0) {
                    test.problem = "the proxy \(test.proxy) " + server.problem(status: status, target, port: url.port)
                }
            } else {
                try await server.connecting { try await ConnectProbe.connect(to: server, at: address, on: group) }
            }
        } catch {
            test.problem = error.originFailure ?? error.message
        }
        return test
    }
}

extension ProxyServer {
    /// The first address of the proxy.
    func address(_ resolver: any HostResolver) async throws(UpstreamError) -> IPAddress {
        if let address = IPAddress(host) { return address }
        guard let address = try await resolver.addresses(of: host).first else { throw unresolved }
        return address
    }

    /// The host of a tunnel to the server of a URL: the name, if the proxy resolves names, or else an IPv4 address.
    fileprivate func tunnelHost(
        of url: FetchURL, _ resolver: any HostResolver
    ) async throws(UpstreamError) -> String {
        if resolvesNames, url.host.address == nil { return url.host.name }
        let addresses: [IPAddress] =
            if let address = url.host.address { [address] } else { try await resolver.addresses(of: url.host.name) }
        if addresses.isEmpty { throw unresolved(url) }
        guard let address = addresses.first(where: \.isIPv4) else { throw onlyIPv6(url) }
        return address.description
    }

    /// Translates an error of a connection to this proxy.
    fileprivate func connecting<Value: Sendable>(
        _ body: () async throws -> Value
    ) async throws(UpstreamError) -> Value {
        do {
            return try await body()
        } catch {
            let problem = problem(connecting: error) ?? "cannot be reached; check the network and the proxy"
            throw UpstreamError(.connectFailed, "the proxy \(place) \(problem)")
        }
    }
}

/// Resolves host names to addresses.
package protocol HostResolver: Sendable {
    /// Returns the addresses of a host in order of preference; an empty array if the name does not resolve.
    func addresses(of name: String) async throws(UpstreamError) -> [IPAddress]
}

/// The resolver of the system (getaddrinfo(3)): files, DNS and other services of nsswitch.conf(5). Sorts addresses by
/// RFC 6724.
package struct SystemResolver: HostResolver {
    private let threads: NIOThreadPool

    /// - Parameter threads: runs the lookups. Each lookup can block a thread until the name servers time out. The
    ///   caller starts the pool and shuts it down; lookups after that fail with `cancelled`.
    package init(_ threads: NIOThreadPool) { self.threads = threads }

    /// Resolves a name on the thread pool, unless the task is already cancelled. If it is cancelled during the lookup,
    /// the call throws `cancelled` without waiting for the lookup, whose result is then discarded.
    package func addresses(of name: String) async throws(UpstreamError) -> [IPAddress] {
        if Task.isCancelled { throw Self.cancelled(name) }
        let (results, result) = AsyncStream.makeStream(of: [IPAddress].self)
        threads.submit { state in
            if state == .active { result.yield(Self.lookUp(name)) }
            result.finish()
        }
        // A cancellation ends the stream.
        for await addresses in results { return addresses }
        throw Self.cancelled(name)
    }

    private static func cancelled(_ name: String) -> UpstreamError {
        UpstreamError(.cancelled, "the lookup of \(name) was cancelled")
    }

    private static func lookUp(_ name: String) -> [IPAddress] {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_ADDRCONFIG
        var list: UnsafeMutablePointer<addrinfo>?
        guard getaddrinfo(name, nil, &hints, &list) == 0 else { return [] }
        defer { freeaddrinfo(list) }
        var result: [IPAddress] = []
        var next = list
        while let entry = next {
            if let address = address(entry.pointee), !result.contains(address) { result.append(address) }
            next = entry.pointee.ai_next
        }
        return result
    }

    private static func address(_ entry: addrinfo) -> IPAddress? {
        guard let raw = UnsafeRawPointer(entry.ai_addr) else { return nil }
        switch entry.ai_family {
        case AF_INET:
            return IPAddress(ipv4: UInt32(bigEndian: raw.loadUnaligned(as: sockaddr_in.self).sin_addr.s_addr))
        case AF_INET6:
            return IPAddress(raw.loadUnaligned(as: sockaddr_in6.self).sin6_addr)
        default:
            return nil
        }
    }
}
