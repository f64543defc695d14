internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1

/// One request from its first byte to the last of its answer: redirects, limits in time, cancellation.
struct Exchange: Sendable {
    let client: HTTPClient
    let configuration: HTTPFetcher.Configuration
    let request: FetchRequest
    let url: FetchURL
    let deadline: Deadline

    private enum Outcome<Output: Sendable>: Sendable {
        case ended(Result<Output, UpstreamError>)
        case expired(Deadline.Expiry)
        case unwatched
    }

    /// Runs the request against its deadline; whichever ends first cancels the other.
    ///
    /// - Parameter read: gets the first answer that is no redirect, and the address that gave it
    func run<Output: Sendable>(
        _ read: @escaping @Sendable (HTTPClientResponse, FetchURL) async throws(UpstreamError) -> Output
    ) async throws(UpstreamError) -> Output {
        let result: Result<Output, UpstreamError> = await withTaskGroup(of: Outcome<Output>.self) { group in
            group.addTask {
                do throws(UpstreamError) {
                    let (response, target) = try await follow()
                    return .ended(.success(try await read(response, target)))
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
        // What a cancelled request died of depends on where it was; its caller only needs to know that it was cancelled.
        if Task.isCancelled, case .failure = result { throw cancelled }
        return try result.get()
    }

    /// Sends the request and follows redirects.
    private func follow() async throws(UpstreamError) -> (HTTPClientResponse, FetchURL) {
        var target = url
        for hop in 0...max(0, configuration.maximumRedirects) {
            let response = try await send(to: target)
            deadline.progressed()
            let status = Int(response.status.code)
            guard [301, 302, 303, 307, 308].contains(status) else { return (response, target) }
            guard let location = response.headers.first(name: "Location"), !location.isEmpty else {
                throw UpstreamError(
                    .invalidRedirect, "\(target.display) answers \(status) without a target; tell its operator",
                    status: status)
            }
            guard hop < configuration.maximumRedirects else { break }
            let next = try target.redirected(to: location)
            // Most redirects turn a POST into a GET, and what was meant for one origin is not said to another.
            if request.body != nil, status < 307 || !next.isSameOrigin(as: url) {
                throw UpstreamError(
                    .invalidRedirect,
                    "\(target.display) redirects a POST with \(status) to \(next.display); use the final address",
                    status: status)
            }
            target = next
        }
        throw UpstreamError(
            .tooManyRedirects,
            "\(url.display) redirects more than \(configuration.maximumRedirects) times; use the final address")
    }

    private func send(to target: FetchURL) async throws(UpstreamError) -> HTTPClientResponse {
        var message = HTTPClientRequest(url: target.text)
        message.headers.add(name: "User-Agent", value: configuration.userAgent)
        message.headers.add(name: "Accept", value: "*/*")
        let isSameOrigin = target.isSameOrigin(as: url)
        if let body = request.body {
            message.method = .POST
            message.headers.add(name: "Content-Type", value: "application/json")
            message.body = .bytes(body)
        }
        // A header that was meant for one origin, a token most of all, is not shown to another.
        if isSameOrigin {
            for header in request.headers { message.headers.replaceOrAdd(name: header.name, value: header.value) }
        }
        if request.body == nil {
            if let etag = request.validator?.etag { message.headers.replaceOrAdd(name: "If-None-Match", value: etag) }
            if let date = request.validator?.lastModified {
                message.headers.replaceOrAdd(name: "If-Modified-Since", value: date)
            }
        }
        message.tlsConfiguration = request.tls?.configuration(withIdentity: isSameOrigin)
        do {
            // Deadline decides; this one is only there because the client wants one.
            return try await client.execute(message, deadline: .distantFuture)
        } catch {
            throw UpstreamError(before: error, from: target)
        }
    }

    private func timeout(_ expiry: Deadline.Expiry) -> UpstreamError {
        let what =
            switch expiry {
            case .idle: "sent nothing for \(request.timeouts.idle)"
            case .whole: "did not answer completely within \(request.timeouts.whole)"
            }
        return UpstreamError(.timeout, "\(url.display) \(what); the last good document stays in use")
    }

    private var cancelled: UpstreamError { UpstreamError(.cancelled, "the request to \(url.display) was cancelled") }
}
