internal import AsyncHTTPClient
internal import NIOCore
internal import NIOHTTP1

/// An HTTP server inside this process, for tests. It responds to the requests of an ``ImageFetcher`` in place of the
/// network.
package protocol InProcessOrigin: Sendable {
    /// Responds to a `GET` request. If it throws, the connection to the origin counts as failed.
    func respond(to request: InProcessRequest) async throws(UpstreamError) -> InProcessResponse
}

/// A request to an ``InProcessOrigin``.
package struct InProcessRequest: Sendable {
    package let url: String
    /// The header fields, with names in lower case.
    package let fields: [String: String]
}

/// A response of an ``InProcessOrigin``.
package struct InProcessResponse: Sendable {
    package let status: Int
    package let fields: [(name: String, value: String)]
    /// The pieces of the body, in order.
    package let body: AsyncStream<[UInt8]>

    package init(status: Int, fields: [(name: String, value: String)], body: AsyncStream<[UInt8]>) {
        (self.status, self.fields, self.body) = (status, fields, body)
    }
}

extension InProcessOrigin {
    func execute(_ message: HTTPClientRequest, to url: FetchURL) async throws(UpstreamError) -> HTTPClientResponse {
        var fields: [String: String] = [:]
        for field in message.headers { fields[field.name.lowercased()] = field.value }
        let response = try await respond(to: InProcessRequest(url: url.text, fields: fields))
        return HTTPClientResponse(
            status: HTTPResponseStatus(statusCode: response.status),
            headers: HTTPHeaders(response.fields.map { ($0.name, $0.value) }),
            body: .stream(response.body.map { ByteBuffer(bytes: $0) }))
    }
}
