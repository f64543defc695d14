internal import AsyncHTTPClient
internal import LarderHTTPSemantics
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
    ///
    /// - Returns: nil for a 304 that refers to another document than the validator of the request
    func read(_ deadline: Deadline) async throws(UpstreamError) -> FetchResponse? {
        switch response.status.code {
        case 304:
            if let validator = request.validator(for: url) {
                let isConfirmed = validator.isConfirmed(
                    byTag: response.headers.first(name: "ETag"),
                    lastModified: response.headers.first(name: "Last-Modified"))
                return isConfirmed ? .notModified(metadata) : nil
            }
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

    /// Reads and decodes the body, which must not be empty.
    private func collect(_ deadline: Deadline) async throws(UpstreamError) -> [UInt8] {
        var body = StreamBody(decoding: response, from: url, deadline: deadline)
        let limit = body.isEncoded ? 2 * request.maximumBytes : request.maximumBytes
        if let length = declaredLength, length > limit { throw tooLarge("\(length) bytes, more") }
        guard let bytes = try await body.collect(atMost: request.maximumBytes) else { throw tooLarge("more") }
        if let length = declaredLength, length != body.received {
            throw failure(.truncated, "sent \(body.received) of \(length) bytes; the last good document stays in use")
        }
        guard !bytes.isEmpty else { throw empty }
        return bytes
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
