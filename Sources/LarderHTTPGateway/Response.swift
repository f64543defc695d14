import LarderJSON
import NIOCore
import NIOHTTP1

/// A response with its whole body.
struct Response: Error {
    var status: HTTPResponseStatus
    var headers: HTTPHeaders = [:]
    var body = ByteBuffer()

    /// A JSON body.
    static func json(_ status: HTTPResponseStatus, _ body: [UInt8]) -> Response {
        json(status, ByteBuffer(bytes: body))
    }

    /// A JSON body.
    static func json(_ status: HTTPResponseStatus, _ body: ByteBuffer) -> Response {
        Response(status: status, headers: ["Content-Type": "application/json"], body: body)
    }

    /// An error that is not the outcome of an evaluation. Providers for OFREP require an error code with the status 400.
    static func error(_ status: HTTPResponseStatus, _ details: String) -> Response {
        var writer = JSONWriter()
        writer.beginObject()
        if status == .badRequest { writer.member("errorCode", "GENERAL") }
        writer.member("errorDetails", details)
        writer.endObject()
        return json(status, writer.bytes)
    }

    func with(_ name: String, _ value: String) -> Response {
        var response = self
        response.headers.replaceOrAdd(name: name, value: value)
        return response
    }

    /// Adds the entity tag of the body. If the request has the same tag in `If-None-Match`, the result is 304 without a
    /// body.
    func tagged(_ etag: String, for head: HTTPRequestHead) -> Response {
        let given = head.headers[canonicalForm: "if-none-match"]
        let matches = given.contains { $0 == "*" || $0.drop(while: { $0 == "W" || $0 == "/" }) == etag }
        guard matches else { return with("ETag", etag) }
        var response = with("ETag", etag)
        (response.status, response.body) = (.notModified, ByteBuffer())
        response.headers.remove(name: "Content-Type")
        return response
    }
}
