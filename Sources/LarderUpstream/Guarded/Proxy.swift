internal import AsyncHTTPClient
import Glibc
internal import LarderJSON
internal import NIOCore
internal import NIOPosix

/// The proxy of a source or of an origin of images.
package enum ProxyChoice: Sendable, Equatable {
    /// That of the whole agent.
    case inherited
    /// None.
    case direct
    case proxy(ProxySettings)

    /// The settings of the proxy; nil for none.
    package var settings: ProxySettings? { if case .proxy(let settings) = self { settings } else { nil } }

    /// The choice, with the proxy of the whole agent instead of ``inherited``.
    package func inheriting(_ general: ProxySettings?) -> ProxyChoice {
        self == .inherited ? general.map(ProxyChoice.proxy) ?? self : self
    }
}

/// The proxies for requests, which open a tunnel for each connection (CONNECT, RFC 9110, section 9.3.6).
package struct ProxySettings: Sendable, Equatable {
    package struct Server: Sendable, Equatable {
        /// A name or an address, without brackets.
        package let host: String
        package let port: Int
        package var user: String?
        package var password: Password?

        /// - Parameter url: an `http` URL without a path
        package init(_ url: String) throws(InvalidURL) {
            let parsed = try FetchURL(parsing: url)
            guard !parsed.isSecure, parsed.path == "/", parsed.query == nil else { throw .proxy }
            (host, port) = (parsed.host.name, parsed.port)
        }
    }

    package enum Password: Sendable, Equatable {
        case credential(Credential)
        /// A password from the environment.
        case text(String)
    }

    /// The proxy for `https` URLs; nil for none.
    package var secure: Server?
    /// The proxy for `http` URLs; nil for none.
    package var plain: Server?
    /// The hosts that are reached without a proxy.
    package var exceptions: [ProxyException] = []
    /// Whether variables of the environment name the proxies.
    package var isFromEnvironment = false
    /// Whether the proxy gets names instead of addresses.
    package var resolvesNames = false

    package init(secure: Server?, plain: Server?) {
        self.secure = secure
        self.plain = plain
    }

    /// Reads the passwords. Blocks on disk I/O.
    ///
    /// - Throws: ``UpstreamError/Code/unusableFile``, naming the file that cannot be used
    package func read() throws(UpstreamError) -> ProxyOptions {
        ProxyOptions(
            secure: try secure?.read(resolvesNames), plain: try plain?.read(resolvesNames), exceptions: exceptions)
    }
}

extension ProxySettings.Server {
    func read(_ resolvesNames: Bool) throws(UpstreamError) -> ProxyServer {
        let secret: String? =
            switch password {
            case .credential(let credential): try credential.read()
            case .text(let text): text
            case nil: nil
            }
        return ProxyServer(
            host: host, port: port, user: user, password: user == nil ? nil : secret ?? "", resolvesNames: resolvesNames
        )
    }
}

/// The hosts that are reached without a proxy: an element of `noProxy`.
package enum ProxyException: Sendable, Equatable {
    case all
    /// Addresses in URLs. Names are not resolved to compare them.
    case range(AddressRange)
    /// A domain in lower case, with all names below it.
    case domain(String)

    /// Parses `*`, an address, a block of addresses, or a domain, which may begin with a dot.
    package init?(_ text: String) {
        if text == "*" {
            self = .all
        } else if let range = AddressRange(text) {
            self = .range(range)
        } else {
            let domain = text.hasPrefix(".") ? text.dropFirst() : text[...]
            guard let host = try? URLHost(domain), host.address == nil else { return nil }
            self = .domain(host.name)
        }
    }

    func includes(_ host: URLHost) -> Bool {
        switch self {
        case .all: true
        case .range(let range): host.address.map(range.contains) ?? false
        case .domain(let domain):
            host.address == nil
                && (host.name.isSpelled(as: domain)
                    || host.name.utf8.suffix(domain.utf8.count + 1).elementsEqual(".\(domain)".utf8))
        }
    }
}

/// The proxies for a request, with their passwords.
package struct ProxyOptions: Sendable {
    let secure: ProxyServer?
    let plain: ProxyServer?
    let exceptions: [ProxyException]

    /// The proxy for a URL; nil for none.
    func server(for url: FetchURL) -> ProxyServer? {
        exceptions.contains { $0.includes(url.host) } ? nil : url.isSecure ? secure : plain
    }
}

/// A proxy for a connection.
struct ProxyServer: Sendable, Hashable {
    let host: String
    let port: Int
    let user: String?
    let password: String?
    let resolvesNames: Bool

    /// The host and the port, for messages.
    var place: String { (host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host) + ":\(port)" }

    fileprivate var authorization: HTTPClient.Authorization? {
        user.map { .basic(username: $0, password: password ?? "") }
    }

    /// - Parameter address: the address of the proxy
    func configuration(at address: IPAddress) -> HTTPClient.Configuration.Proxy {
        .server(host: address.description, port: port, authorization: authorization)
    }

    // MARK: Failures

    var unresolved: UpstreamError {
        let failure = "the name of the proxy \(place) does not resolve"
        return UpstreamError(
            .connectFailed, "\(failure); check the proxy in the settings and DNS",
            originFailure: "\(failure); check it and DNS")
    }

    /// The error for a host whose name this host cannot resolve.
    func unresolved(_ url: FetchURL) -> UpstreamError {
        let failure = "the name \(url.host.text) does not resolve on this host"
        let advice = "check it and DNS, or set resolvesNames of the proxy to true if only the proxy resolves it"
        return UpstreamError(
            .connectFailed, "\(failure), for \(url.display); \(advice)", originFailure: "\(failure); \(advice)")
    }

    /// The error for a host that has only IPv6 addresses. The HTTP client cannot ask a proxy for these.
    func onlyIPv6(_ url: FetchURL) -> UpstreamError {
        let failure = "\(url.host.text) has only IPv6 addresses, which are not requested from the proxy \(place)"
        let advice = "add the host to noProxy, or set resolvesNames of the proxy to true and use a name"
        return UpstreamError(.connectFailed, "\(failure); \(advice)", originFailure: "\(failure); \(advice)")
    }

    /// Translates an error of a request through this proxy.
    ///
    /// - Parameters:
    ///   - address: the address of the host that the proxy was asked for; nil for its name
    ///   - proxy: the address of the proxy
    /// - Returns: nil if the proxy opened the tunnel
    func failure(
        _ error: any Error, for url: FetchURL, to address: IPAddress?, at proxy: IPAddress, on group: any EventLoopGroup
    ) async -> UpstreamError? {
        let target = "\(address?.description ?? url.host.name):\(url.port)"
        let problem: String?
        switch error {
        case let error as HTTPClientError where error == .proxyAuthenticationRequired:
            problem = self.problem(status: 407, target, port: url.port)
        case let error as HTTPClientError where error == .invalidProxyResponse:
            let status = try? await ConnectProbe.status(of: target, self, at: proxy, on: group)
            problem = self.problem(status: status, target, port: url.port)
        case let error as HTTPClientError where error == .httpProxyHandshakeTimeout:
            problem = "did not connect to \(target) in time; check the proxy and that server"
        case let error as HTTPClientError where error == .connectTimeout:
            problem = "did not connect to \(target) in time; check the network, the proxy and that server"
        default: problem = self.problem(connecting: error)
        }
        guard let problem else { return nil }
        return UpstreamError(
            .connectFailed, "cannot fetch \(url.display): the proxy \(place) \(problem)",
            originFailure: "the proxy \(place) \(problem)")
    }

    /// The problem with the status of a response that refuses a tunnel, as a continuation of the name of the proxy.
    /// - Parameter port: the port of the target
    func problem(status: Int?, _ target: String, port: Int) -> String {
        switch status {
        case 407? where user == nil:
            return "requires a user (status 407); give \"user\" and \"passwordFile\" of the proxy in the settings"
        // RFC 9110 wants 407 here, too, but tinyproxy answers 401.
        case let status? where status == 407 || status == 401 && user != nil:
            return "rejects the user or the password (status \(status)); correct \"user\" or the password of the proxy"
        case let status? where status >= 500:
            return "could not connect to \(target) (status \(status)); check that server and its address"
        default:
            return "refuses a connection to \(target)" + (status.map { " with status \($0)" } ?? "")
                + "; allow it there, or add the host to noProxy"
                + (port == 443 ? "" : "; many proxies refuse ports other than 443")
        }
    }

    /// The problem if no connection to the proxy was opened, as a continuation of its name; nil for another error.
    func problem(connecting error: any Error) -> String? {
        switch (error as? NIOConnectionError)?.connectionErrors.first?.error ?? error {
        case ChannelError.connectTimeout: return "does not respond in time; check the network and the proxy"
        case let error as IOError where [ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ETIMEDOUT].contains(error.errnoCode):
            // strerror(3) of glibc is thread-safe; see UpstreamError.
            return "cannot be reached: \(String(cString: strerror(error.errnoCode))); check that it is running"
        default: return nil
        }
    }
}

extension InvalidURL {
    static let proxy = InvalidURL(
        reason: "must be an http URL without a path, such as \"http://proxy.example.org:3128\"; "
            + "connections to the proxy itself cannot use TLS")
}

/// Asks a proxy for a tunnel to find out its status, which the HTTP client does not report.
final class ConnectProbe: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private static let timeout = TimeAmount.seconds(5)
    private static let maxBytes = 1024
    private let request: String
    private let result: EventLoopPromise<Int?>
    private var line: [UInt8] = []

    private init(_ request: String, _ result: EventLoopPromise<Int?>) {
        (self.request, self.result) = (request, result)
    }

    /// The status of the response; nil if the proxy does not respond with HTTP in time.
    ///
    /// - Throws: the error of the connection to the proxy
    static func status(
        of target: String, _ server: ProxyServer, at address: IPAddress, on group: any EventLoopGroup
    ) async throws -> Int? {
        let loop = group.next()
        let result = loop.makePromise(of: Int?.self)
        let limit = loop.scheduleTask(in: timeout) { result.succeed(nil) }
        let field = server.authorization.map { "Proxy-Authorization: \($0.headerValue)\r\n" } ?? ""
        let request = "CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n\(field)\r\n"
        let connection = ClientBootstrap(group: loop)
            .connectTimeout(timeout)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(ConnectProbe(request, result))
                }
            }
            .connect(host: address.description, port: server.port)
        connection.whenFailure { result.fail($0) }
        defer {
            limit.cancel()
            connection.whenSuccess { $0.close(promise: nil) }
        }
        return try await withTaskCancellationHandler {
            try await result.futureResult.get()
        } onCancel: {
            result.succeed(nil)
        }
    }

    /// Opens a connection to a proxy, and closes it.
    static func connect(to server: ProxyServer, at address: IPAddress, on group: any EventLoopGroup) async throws {
        let channel = try await ClientBootstrap(group: group).connectTimeout(timeout)
            .connect(host: address.description, port: server.port).get()
        channel.close(promise: nil)
    }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: request)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        line += unwrapInboundIn(data).readableBytesView.prefix(Self.maxBytes - line.count)
        guard line.contains(UInt8(ascii: "\n")) || line.count == Self.maxBytes else { return }
        // HTTP/1.1 403 Forbidden
        let words = line.split(separator: UInt8(ascii: " "), maxSplits: 2)
        let isHTTP = words.first?.starts(with: "HTTP/".utf8) ?? false
        result.succeed(isHTTP && words.count > 1 ? Int(String(decoding: words[1], as: UTF8.self)) : nil)
    }

    func channelInactive(context: ChannelHandlerContext) { result.succeed(nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { result.succeed(nil) }
}
