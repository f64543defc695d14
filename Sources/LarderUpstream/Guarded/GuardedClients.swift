internal import AsyncHTTPClient
internal import FoundationEssentials
internal import NIOCore
internal import Synchronization

/// HTTP clients that connect to addresses which an ``AddressGuard`` has allowed, and to no others.
///
/// To check a name's address and then let the HTTP library resolve the name again would be of no use: the second answer
/// can be another. AsyncHTTPClient resolves names itself and lets nobody in between, but it can be told the address of a
/// name (`dnsOverride`), for all requests of one client; the name still goes into `Host`, into TLS's server name and
/// into the check of the certificate. So here each pair of a name and an address has a client of its own, whose
/// connections are reused as usual. A client is little more than its pool; the threads are shared. Names are resolved for
/// each request, and a connection that was made for one answer is never used for another.
///
/// Nothing depends on how the library reads a URL: each new connection's real peer is compared with the address before a
/// byte of the request is sent.
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
    private let state: Mutex<State>

    /// How many of a name's addresses are tried.
    private static let attempts = 3

    /// Makes an empty set of clients.
    ///
    /// - Parameters:
    ///   - addressGuard: which addresses are allowed
    ///   - resolver: what makes addresses of names
    ///   - configuration: what all clients have in common; redirects must not be followed, or hops would go unchecked
    ///   - maximumClients: how many are kept when nobody uses them
    ///   - eventLoopGroup: where connections live; nothing means NIO's process-wide group
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

    /// Allows other addresses, from the next request on. Connections to others go on with what they do and are not used again.
    func update(_ addressGuard: AddressGuard) { state.withLock { $0.addressGuard = addressGuard } }

    /// Resolves a URL's host once, checks what comes, and hands out a client that can only connect to that. Where the
    /// body fails because nobody accepts the connection, or nobody in time, it is called again for the host's next address.
    ///
    /// - Throws: what the body throws; ``UpstreamError/Code/forbiddenAddress`` if the host has no allowed address;
    ///   ``UpstreamError/Code/connectFailed`` if it has none at all
    func withClient<Value: Sendable>(
        for url: FetchURL, _ body: (ClientRoute) async throws(UpstreamError) -> Value
    ) async throws(UpstreamError) -> Value {
        var failure: UpstreamError?
        for address in try await allowedAddresses(of: url).prefix(Self.attempts) {
            let pin = Pin(host: url.host, address: address)
            let client = try enter(pin, url)
            do throws(UpstreamError) {
                let value = try await body(ClientRoute(client: client, address: address))
                await leave(pin)
                return value
            } catch {
                await leave(pin)
                // Silence after that is for a Deadline to notice, which leaves no second try.
                guard error.code == .connectFailed, !Task.isCancelled else { throw error }
                failure = error
            }
        }
        throw failure ?? .unresolved(url)
    }

    /// Ends all requests and closes all connections.
    func shutdown() async {
        let clients = state.withLock { state in
            defer { state.entries = [:] }
            state.isShutDown = true
            return state.entries.values.map(\.client)
        }
        // It fails only for a second shutdown of the same client.
        for client in clients { try? await client.shutdown() }
    }

    /// The addresses to try. One that is not allowed is left out if there are others: what counts is where we connect.
    private func allowedAddresses(of url: FetchURL) async throws(UpstreamError) -> [IPAddress] {
        let all: [IPAddress] =
            switch try AddressGuard.host(url.host) {
            case .address(let address): [address]
            case .name(let name): try await resolver.addresses(of: name)
            }
        let addressGuard = state.withLock { $0.addressGuard }
        let allowed = all.filter(addressGuard.allows)
        if allowed.isEmpty, let first = all.first { try addressGuard.check(first, of: url.host) }
        return allowed
    }

    private func enter(_ pin: Pin, _ url: FetchURL) throws(UpstreamError) -> HTTPClient {
        let client: HTTPClient? = state.withLock { state in
            guard !state.isShutDown else { return nil }
            state.uses += 1
            let client = state.entries[pin]?.client ?? makeClient(pin, url)
            state.entries[pin, default: Entry(client: client, users: 0, lastUse: 0)].users += 1
            state.entries[pin]?.lastUse = state.uses
            return client
        }
        guard let client else {
            throw UpstreamError(.shutDown, "the agent is shutting down; ask again after its restart")
        }
        return client
    }

    /// Gives a client back, and gives up the one that was not used for longest if there are too many.
    private func leave(_ pin: Pin) async {
        let surplus: HTTPClient? = state.withLock { state in
            state.entries[pin]?.users -= 1
            guard state.entries.count > maximumClients else { return nil }
            let idle = state.entries.filter { $0.value.users == 0 }.min { $0.value.lastUse < $1.value.lastUse }
            return idle.flatMap { state.entries.removeValue(forKey: $0.key)?.client }
        }
        try? await surplus?.shutdown()
    }

    private func makeClient(_ pin: Pin, _ url: FetchURL) -> HTTPClient {
        var configuration = configuration
        configuration.redirectConfiguration = .disallow
        // The name as it is here and as the library will see it, which may be in other letters.
        configuration.dnsOverride = [pin.host: pin.address.description]
        if let host = URL(string: url.text)?.host(percentEncoded: false) {
            configuration.dnsOverride[host] = pin.address.description
        }
        let check: @Sendable (any Channel) -> EventLoopFuture<Void> = { channel in
            let peer = channel.remoteAddress?.ipAddress.flatMap { IPAddress($0) }
            if peer == pin.address { return channel.eventLoop.makeSucceededVoidFuture() }
            return channel.eventLoop.makeFailedFuture(
                UpstreamError(.forbiddenAddress, "a connection to \(pin.host) went to an address that was not checked"))
        }
        configuration.http1_1ConnectionDebugInitializer = check
        configuration.http2ConnectionDebugInitializer = check
        return HTTPClient(
            eventLoopGroup: eventLoopGroup ?? HTTPClient.defaultEventLoopGroup, configuration: configuration)
    }
}
