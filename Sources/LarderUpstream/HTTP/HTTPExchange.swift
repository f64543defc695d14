internal import AsyncHTTPClient
import Glibc
internal import LarderHTTPSemantics
internal import NIOCore
internal import NIOHTTP1

/// Provides the HTTP client for a URL.
enum ClientSource: Sendable {
    /// One client for all URLs without a proxy, and clients for those with one.
    case shared(HTTPClient, proxied: GuardedClients)
    /// Clients that can connect only to checked addresses.
    case guarded(GuardedClients)
    /// No client, because the server is in this process.
    case inProcess(any InProcessOrigin)

    /// Runs `body` with the client for a URL. The client is valid until `body` returns. If a guarded client cannot
    /// connect, `body` runs again with another address of the host.
    /// - Parameter proxy: the proxy; nil for none
    func withClient<Value: Sendable>(
        for url: FetchURL, via proxy: ProxyServer?, _ body: (RequestRoute) async throws(UpstreamError) -> Value
    ) async throws(UpstreamError) -> Value {
        switch self {
        case .shared(let client, _) where proxy == nil:
            try await body(.client(ClientRoute(client: client, address: nil)))
        case .shared(_, let clients), .guarded(let clients):
            try await clients.withClient(for: url, via: proxy) { route throws(UpstreamError) in
                try await body(.client(route))
            }
        case .inProcess(let origin): try await body(.inProcess(origin))
        }
    }
}

/// How a request reaches its server.
enum RequestRoute: Sendable {
    case client(ClientRoute)
    case inProcess(any InProcessOrigin)
}

/// One request with its redirects, time limits and cancellation.
struct HTTPExchange: Sendable {
    let clients: ClientSource
    /// Header fields of every request, to any origin.
    let fields: [(name: String, value: String)]
    let maximumRedirects: Int
    let request: FetchRequest
    let url: FetchURL
    let deadline: Deadline
    /// Called with each redirect, usable or not, before it is followed.
    var onRedirect: @Sendable (RedirectResponse) -> Void = { _ in }

    private enum Outcome<Output: Sendable>: Sendable {
        case ended(Result<Output, UpstreamError>)
        case expired(Deadline.Expiry)
        case unwatched
    }

    /// Runs the request until it completes or the deadline expires.
    ///
    /// - Parameter read: reads the first response that is not a redirect. The second argument is the URL that
    ///   responded.
    func run<Output: Sendable>(
        _ read: @escaping @Sendable (HTTPClientResponse, FetchURL) async throws(UpstreamError) -> Output
    ) async throws(UpstreamError) -> Output {
        let result: Result<Output, UpstreamError> = await withTaskGroup(of: Outcome<Output>.self) { group in
            group.addTask {
                do throws(UpstreamError) {
                    return .ended(.success(try await follow(read)))
                } catch {
                    return .ended(.failure(error))
                }
            }
            group.addTask {
                guard let expiry = await deadline.expiry() else { return .unwatched }
                return .expired(expiry)
            }
            defer { group.cancelAll() }
            for await outcome in group {
                switch outcome {
                case .ended(let result): return result
                case .expired(let expiry): return .failure(timeout(expiry))
                case .unwatched: continue
                }
            }
            return .failure(cancelled)
        }
        // The error of a cancelled request depends on how far the request got. Callers always get `cancelled`.
        if Task.isCancelled, case .failure = result { throw cancelled }
        return try result.get()
    }

    private enum Hop<Output: Sendable>: Sendable {
        case read(Output)
        case redirected(FetchURL)
    }

    /// Sends the request, follows redirects and reads the final response. The client that received the final response
    /// is not released before the response has been read.
    private func follow<Output: Sendable>(
        _ read: @escaping @Sendable (HTTPClientResponse, FetchURL) async throws(UpstreamError) -> Output
    ) async throws(UpstreamError) -> Output {
        var target = url
        for _ in 0...max(0, maximumRedirects) {
            let hop: Hop<Output>
            do throws(UpstreamError) {
                let proxy = request.proxy?.server(for: target)
                hop = try await clients.withClient(for: target, via: proxy) {
                    route throws(UpstreamError) -> Hop<Output> in
                    deadline.progressed()
                    var response = try await send(to: target, route)
                    response.headers.trimValues()
                    deadline.progressed()
                    guard let next = try redirect(response, from: target) else {
                        return .read(try await read(response, target))
                    }
                    return .redirected(next)
                }
            } catch {
                throw target.text == url.text ? error : redirected(error, target)
            }
            switch hop {
            case .read(let output): return output
            case .redirected(let next): target = next
            }
        }
        let count = maximumRedirects > 0 ? "more than \(maximumRedirects) times" : "the request"
        throw UpstreamError(.tooManyRedirects, "\(url.display) redirects \(count); use the final address")
    }

    /// Returns the target of a redirect; nil for other responses, including a 304 with a `Location`.
    private func redirect(_ response: HTTPClientResponse, from target: FetchURL) throws(UpstreamError) -> FetchURL? {
        let status = Int(response.status.code)
        guard [301, 302, 303, 307, 308].contains(status) else { return nil }
        onRedirect(RedirectResponse(status: status, fields: response.headers.map { ($0.name, $0.value) }))
        guard let location = response.headers.first(name: "Location"), !location.isEmpty else {
            throw UpstreamError(
                .invalidRedirect,
                "\(target.display) returned status \(status) without a target; inform the operator of that server",
                status: status)
        }
        let next = try target.redirected(to: location)
        // Redirects with a status below 307 may turn a POST into a GET, and a body for one origin must not be sent to
        // another.
        if request.body != nil, status < 307 || !next.isSameOrigin(as: url) {
            throw UpstreamError(
                .invalidRedirect,
                "\(target.display) redirects a POST with \(status) to \(next.display); use the final address",
                status: status)
        }
        return next
    }

    /// Returns the error to report for the original URL if the target of a redirect fails.
    private func redirected(_ error: UpstreamError, _ target: FetchURL) -> UpstreamError {
        if error.code == .invalidURL {
            return UpstreamError(
                .invalidRedirect, "\(url.display) redirects to an unusable address: \(error.message)")
        }
        return target.isSameOrigin(as: url) ? error : error.afterRedirect
    }

    private func send(
        to target: FetchURL, _ route: RequestRoute
    ) async throws(UpstreamError) -> HTTPClientResponse {
        // The deadline of a long poll, for example, concerns only the URL of the request.
        let requested = request.addedQuery.flatMap { target == url ? target.adding(query: $0) : nil } ?? target
        var message = HTTPClientRequest(url: requested.text)
        for field in fields { message.headers.add(name: field.name, value: field.value) }
        let isSameOrigin = target.isSameOrigin(as: url)
        if let body = request.body {
            message.method = .POST
            message.headers.add(name: "Content-Type", value: "application/json")
            message.body = .bytes(body)
        }
        // Header fields for one origin, such as a token, must not be sent to another.
        if isSameOrigin {
            for header in request.headers { message.headers.replaceOrAdd(name: header.name, value: header.value) }
        }
        if !request.ownHeaders.isEmpty, target == url {
            for header in request.ownHeaders { message.headers.replaceOrAdd(name: header.name, value: header.value) }
        }
        let validator = request.validator(for: target)
        if let etag = validator?.etag { message.headers.replaceOrAdd(name: "If-None-Match", value: etag) }
        if let date = validator?.lastModified { message.headers.replaceOrAdd(name: "If-Modified-Since", value: date) }
        if let part = request.missingPart(for: target) {
            message.headers.replaceOrAdd(name: "Range", value: "bytes=\(part.offset)-")
            message.headers.replaceOrAdd(name: "If-Range", value: part.tag)
        }
        if isSameOrigin || !request.limitsAuthoritiesToOrigin {
            message.tlsConfiguration = request.tls?.configuration(withIdentity: isSameOrigin)
        }
        switch route {
        case .inProcess(let origin): return try await origin.execute(message, to: requested)
        case .client(let route):
            do {
                return try await route.execute(message, to: requested, isRepeatable: !request.awaitsChange)
            } catch {
                if let proxy = route.proxy,
                    let failure = await proxy.server.failure(
                        error, for: target, to: route.address, at: proxy.address, on: route.client.eventLoopGroup)
                {
                    throw failure
                }
                // Without a certificate that has expired or is not valid yet, the library's own error is reported.
                guard route.proxy == nil, TLSFailure(description: String(describing: error)).isUntrusted,
                    let certificates = await ServerCertificates.read(
                        from: target, at: route.address?.description, on: route.client.eventLoopGroup,
                        timeout: .seconds(5)),
                    let reason = certificates.problem(at: time(nil))
                else { throw UpstreamError(before: error, from: target) }
                throw .tlsFailed(reason, target)
            }
        }
    }

    private func timeout(_ expiry: Deadline.Expiry) -> UpstreamError {
        var code = UpstreamError.Code.timeout
        let what: String
        switch expiry {
        case .unresolved: return .unresolved(url, isLate: true)
        case .idle: what = "sent nothing for \(request.timeouts.idle)"
        case .slow(let rate, let isAwaited):
            code = .tooSlow
            what =
                "sent less than \(rate.bytes) bytes in \(rate.window)"
                + (isAwaited ? " while other downloads waited for its slot" : "")
                + ", not counting pieces of a few bytes"
        case .whole: what = "did not respond completely within \(request.timeouts.whole)"
        }
        let effect = request.isReport ? "" : "; the last good document stays in use"
        return UpstreamError(code, "\(url.display) \(what)\(effect)")
    }

    private var cancelled: UpstreamError { UpstreamError(.cancelled, "the request to \(url.display) was cancelled") }
}

extension HTTPHeaders {
    /// Removes the white space around all values, which does not belong to them (RFC 9110, section 5.5).
    fileprivate mutating func trimValues() {
        func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
        guard contains(where: { $0.value.utf8.first.map(isSpace) ?? false || $0.value.utf8.last.map(isSpace) ?? false })
        else { return }
        self = HTTPHeaders(
            map { name, value in
                let start = value.utf8.drop(while: isSpace)
                let end = start.lastIndex { !isSpace($0) }.map { start.index(after: $0) } ?? start.startIndex
                return (name, String(start[..<end]) ?? "")
            })
    }
}
