internal import AsyncHTTPClient
internal import NIOCore
internal import Synchronization

/// HTTP clients that connect only to addresses that an ``AddressGuard`` allows.
///
/// A name must not be resolved again after its address has been checked, because the second result can differ (DNS
/// rebinding). AsyncHTTPClient resolves names itself, and offers no way to replace its resolver. However, a client can
/// be given the address of a name for all its requests (`dnsOverride`). The name is still used for `Host`, for TLS
/// server name indication and for the check of the certificate. Therefore each pair of a name and an address has its
/// own client with its own pool of connections; all clients share the threads. Names are resolved for each request, and
/// a connection is reused only for the address that it was opened to.
///
/// As a second check that does not depend on how the library parses a URL, the peer address of each new connection is
/// compared with the checked address before any byte of the request is sent.
final class GuardedClients: Sendable {
    private struct Pin: Hashable, Sendable {
        let host: String
        let address: IPAddress
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
    /// the first allowed address. If `body` throws `connectFailed`, it runs again with a client for the next allowed
    /// address. At most three addresses are tried.
    ///
    /// - Throws: the errors of `body`; ``UpstreamError/Code/forbiddenAddress`` if the host has addresses but none is
    ///   allowed; ``UpstreamError/Code/connectFailed`` if the host has no address
    func withClient<Value: Sendable>(
        for url: FetchURL, _ body: (ClientRoute) async throws(UpstreamError) -> Value
    ) async throws(UpstreamError) -> Value {
        var failure: UpstreamError?
        for address in try await allowedAddresses(of: url).prefix(Self.attempts) {
            let pin = Pin(host: url.host.name, address: address)
            let client = try enter(pin)
            do throws(UpstreamError) {
                let value = try await body(ClientRoute(client: client, address: address))
                await leave(pin)
                return value
            } catch {
                await leave(pin)
                // Errors after the connection was opened, and the timeouts of `Deadline`, are not retried with another
                // address.
                guard error.code == .connectFailed, !Task.isCancelled else { throw error }
                failure = error
            }
        }
        throw failure ?? .unresolved(url)
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
        configuration.dnsOverride = [pin.host: pin.address.description]
        configuration.addRequestHandlers { channel in
            let peer = channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }
            guard peer == pin.address else {
                throw UpstreamError(.forbiddenAddress, "a connection to \(pin.host) went to an unchecked address")
            }
        }
        return HTTPClient(
            eventLoopGroup: eventLoopGroup ?? HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }
}
