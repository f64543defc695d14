internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1

/// Reads the body of a response that is not a redirect, and checks that the body is complete.
struct BodyReader {
    private let response: HTTPClientResponse
    private let request: FetchRequest
    private let url: FetchURL
    private let metadata: FetchMetadata

    init(_ response: HTTPClientResponse, to request: FetchRequest, from url: FetchURL) {
        self.response = response
        self.request = request
        self.url = url
        metadata = FetchMetadata(response, from: url)
    }

    /// Turns the response into its result: `notModified` for a 304, a complete document for a 200 or 203. For other
    /// statuses it throws an error or, if ``FetchRequest/readsProblems`` is set, returns the error with the body.
    func read(_ deadline: Deadline) async throws(UpstreamError) -> FetchResponse {
        switch response.status.code {
        case 304 where request.validator(for: url) != nil:
            return .notModified(metadata)
        case 304:
            throw failure(.malformedAnswer, "returned 304 to a request without a validator; check any proxies")
        case 200, 203:
            return .document(FetchDocument(body: try await collect(deadline), metadata: metadata))
        case 204, 205:
            throw empty
        default:
            let error = UpstreamError(status: metadata, from: url)
            guard request.readsProblems, let body = try? await collect(deadline) else { throw error }
            return .problem(error, FetchDocument(body: body, metadata: metadata))
        }
    }

    /// Reads and decodes the body, which must not be empty. Requests each piece after the previous one has been copied.
    private func collect(_ deadline: Deadline) async throws(UpstreamError) -> [UInt8] {
        let decoder = try Inflater(for: response, from: url)
        // A compressed body can be slightly longer than its content. It is limited, too, because compressed data can be
        // endless without content.
        let limit = decoder == nil ? request.maximumBytes : 2 * request.maximumBytes
        if let length = declaredLength, length > limit { throw tooLarge("\(length) bytes, more") }
        var body: [UInt8] = []
        var received = 0
        // The declared length may be wrong, so at most 1 MiB is reserved for it.
        body.reserveCapacity(min(declaredLength ?? 0, request.maximumBytes, 1 << 20))
        do {
            for try await piece in response.body {
                deadline.progressed()
                received += piece.readableBytes
                guard received <= limit else { throw tooLarge("more") }
                guard let decoder else {
                    piece.withUnsafeReadableBytes { body.append(contentsOf: $0) }
                    continue
                }
                decoder.receive(Array(piece.readableBytesView))
                while let bytes = try decoder.next(from: url) {
                    guard bytes.count <= request.maximumBytes - body.count else { throw tooLarge("more") }
                    body += bytes
                }
            }
        } catch let error as UpstreamError {
            throw error
        } catch {
            throw UpstreamError(within: error, from: url, received: received)
        }
        // The stream of a cancelled request may end like a complete one.
        if Task.isCancelled { throw failure(.cancelled, "was not read completely, because the request was cancelled") }
        if let length = declaredLength, length != received {
            throw failure(.truncated, "sent \(received) of \(length) bytes; the last good document stays in use")
        }
        if let decoder, received > 0, !decoder.isComplete { throw Inflater.truncated(url) }
        guard !body.isEmpty else { throw empty }
        return body
    }

    private var declaredLength: Int? { response.headers.first(name: "Content-Length").flatMap { Int($0) } }

    private var empty: UpstreamError {
        failure(.empty, "returned \(response.status.code) with an empty body; the last good document stays in use")
    }

    private func tooLarge(_ size: String) -> UpstreamError {
        failure(
            .tooLarge,
            "sends \(size) than the limit of \(request.maximumBytes) bytes; raise limits.documentBytes or send less")
    }

    private func failure(_ code: UpstreamError.Code, _ text: String) -> UpstreamError {
        UpstreamError(
            code, "\(url.display) \(text)", status: Int(response.status.code), retryAfter: metadata.retryAfter)
    }
}

extension UpstreamError {
    /// The error for a response whose status means that it has no document.
    init(status metadata: FetchMetadata, from url: FetchURL, wanted: String = "a document") {
        let advice =
            switch metadata.status {
            case 401, 403, 407: " (check the credentials)"
            case 404, 410: " (check the address)"
            case 408, 425, 429, 503: " (the server asks to retry later)"
            case 500...: " (a server error)"
            default: ""
            }
        self.init(
            .status, "\(url.display) returned status \(metadata.status)\(advice) instead of \(wanted)",
            status: metadata.status, retryAfter: metadata.retryAfter)
    }
}
