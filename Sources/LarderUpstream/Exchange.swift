internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1

/// One fetch from its first request to its last byte: redirects, limits, and the verdict on the answer.
struct Exchange: Sendable {
    let client: HTTPClient
    let configuration: HTTPFetcher.Configuration
    let request: FetchRequest
    let url: FetchURL

    private enum Outcome: Sendable {
        case ended(Result<FetchResponse, UpstreamError>)
        case expired(Deadline.Expiry)
        case unwatched
    }

    /// Runs the request against its deadline; whichever ends first cancels the other.
    func run() async throws(UpstreamError) -> FetchResponse {
        let deadline = Deadline(request.timeouts)
        let result: Result<FetchResponse, UpstreamError> = await withTaskGroup(of: Outcome.self) { group in
            group.addTask {
                do throws(UpstreamError) {
                    return .ended(.success(try await follow(deadline)))
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
    private func follow(_ deadline: Deadline) async throws(UpstreamError) -> FetchResponse {
        var target = url
        for hop in 0...max(0, configuration.maximumRedirects) {
            let response = try await send(to: target)
            deadline.progressed()
            guard [301, 302, 303, 307, 308].contains(response.status.code) else {
                return try await Answer(response, to: request, from: target).read(deadline)
            }
            guard let location = response.headers.first(name: "Location"), !location.isEmpty else {
                throw UpstreamError(
                    .invalidRedirect,
                    "\(target.display) answers \(response.status.code) without a target; tell its operator",
                    status: Int(response.status.code))
            }
            guard hop < configuration.maximumRedirects else { break }
            target = try target.redirected(to: location)
        }
        throw UpstreamError(
            .tooManyRedirects,
            "\(url.display) redirects more than \(configuration.maximumRedirects) times; use the final address")
    }

    private func send(to target: FetchURL) async throws(UpstreamError) -> HTTPClientResponse {
        var message = HTTPClientRequest(url: target.text)
        message.headers.add(name: "User-Agent", value: configuration.userAgent)
        message.headers.add(name: "Accept", value: "*/*")
        // A header that was meant for one origin, a token most of all, is not shown to another.
        if target.isSameOrigin(as: url) {
            for header in request.headers { message.headers.replaceOrAdd(name: header.name, value: header.value) }
        }
        if let etag = request.validator?.etag { message.headers.replaceOrAdd(name: "If-None-Match", value: etag) }
        if let date = request.validator?.lastModified {
            message.headers.replaceOrAdd(name: "If-Modified-Since", value: date)
        }
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
