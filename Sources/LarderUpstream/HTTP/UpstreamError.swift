internal import AsyncHTTPClient
import Glibc
internal import NIOCore
internal import NIOHTTP1
internal import NIOHTTP2
internal import NIOPosix
internal import NIOSSL

/// Why a request to a remote source did not get a usable response.
///
/// ``message`` is one line that says what happened and what to do. It never contains a query string, a header field or
/// a credential.
package struct UpstreamError: Error, Sendable, Hashable, CustomStringConvertible {
    package let code: Code
    /// The status code of the response, if it caused the failure; otherwise nil.
    package let status: Int?
    /// The value of `Retry-After` (RFC 9110, section 10.2.3), never negative; nil if absent.
    package let retryAfter: Duration?
    /// One line: the failure and what to do.
    package let message: String
    /// Why the origin of the URL cannot be reached at all: name resolution, the connection or TLS failed. Nil if the
    /// failure may concern only this URL, or another origin behind a redirect. The text contains only the host and port
    /// of the URL, so it can be shown to clients that request other URLs of the origin.
    package let originFailure: String?

    /// - Parameters:
    ///   - message: what happened and what to do, on one line, without secrets
    ///   - status: the status code that caused the failure
    ///   - retryAfter: the value of `Retry-After`
    ///   - originFailure: why the origin of the URL cannot be reached at all; nil for other failures
    package init(
        _ code: Code, _ message: String, status: Int? = nil, retryAfter: Duration? = nil, originFailure: String? = nil
    ) {
        self.code = code
        self.message = message
        self.status = status
        self.retryAfter = retryAfter
        self.originFailure = originFailure
    }

    /// The same error without ``originFailure``, for a redirect to another origin.
    var afterRedirect: UpstreamError {
        UpstreamError(code, message, status: status, retryAfter: retryAfter)
    }

    /// Whether the same request may succeed later according to its status: 408, 425, 429 and 5xx, except 501 and 505.
    package var isRetryable: Bool {
        switch status ?? 0 {
        case 408, 425, 429: true
        case 501, 505: false
        case let status: status >= 500
        }
    }

    package var description: String { "\(code): \(message)" }

    /// A kind of failure.
    package enum Code: String, Sendable {
        /// The URL is not a valid absolute `http` or `https` URL, or it contains credentials.
        case invalidURL
        /// The host of the URL, or of the target of a redirect, has no address that the settings allow.
        case forbiddenAddress
        /// A header field, or another option of the request, is invalid.
        case invalidRequest
        /// A file with a credential or a certificate cannot be read or has unusable content.
        case unusableFile
        /// The name did not resolve, or the connection was refused or timed out.
        case connectFailed
        /// The TLS handshake failed, most often because of a certificate.
        case tlsFailed
        /// The origin was silent for too long, or the whole response took too long.
        case timeout
        /// The body arrived more slowly than ``FetchTimeouts`` allows.
        case tooSlow
        /// The connection ended before the response began.
        case connectionClosed
        /// The response ended early.
        case truncated
        /// The response is not HTTP, or does not fit the request.
        case malformedAnswer
        /// The body has a content coding that was not requested, or is not validly encoded.
        case unsupportedEncoding
        /// The body, after decoding, or its declared length exceeds ``FetchRequest/maximumBytes``.
        case tooLarge
        /// The response has a success status but no body.
        case empty
        /// The status code means that there is no document; see ``UpstreamError/status``.
        case status
        case tooManyRedirects
        /// The redirect has no usable target, leads from `https` to `http`, or would change the method or origin of a
        /// POST.
        case invalidRedirect
        case cancelled
        /// The fetcher was shut down.
        case shutDown
        /// Any other failure; the message contains the error text of the library.
        case other
    }

    /// Translates an error of the HTTP client that occurred before the head of the response arrived.
    init(before error: any Error, from url: FetchURL) {
        // The error is an UpstreamError if GuardedClients has rejected a connection to an unchecked address.
        self =
            (error as? UpstreamError) ?? Self.ofConnection(error, url) ?? Self.ofLibrary(error, url)
            ?? UpstreamError(.other, "cannot fetch \(url.display): \(Self.line(error))")
    }

    /// Translates an error of the HTTP client that occurred while the body was received.
    init(within error: any Error, from url: FetchURL, received: Int) {
        if Self.isEnd(error) {
            self.init(
                .truncated,
                "\(url.display) closed the connection after \(received) bytes of its body; \(Self.kept)")
        } else {
            self =
                Self.ofLibrary(error, url)
                ?? UpstreamError(.truncated, "\(url.display) aborted its response: \(Self.line(error)); \(Self.kept)")
        }
    }

    private static let kept = "the last good document stays in use"

    /// Whether the connection ended: closed, reset, or closed in the middle of a message.
    private static func isEnd(_ error: any Error) -> Bool {
        switch error {
        case let error as HTTPClientError: error == .remoteConnectionClosed || error == .uncleanShutdown
        case let error as HTTPParserError: error == .invalidEOFState
        case let error as IOError: [ECONNRESET, EPIPE, ECONNABORTED].contains(error.errnoCode)
        default: false
        }
    }

    /// Whether the stream of an HTTP/2 request was closed, and not because of an error.
    private static func isEndOfStream(_ error: any Error) -> Bool {
        let error = (error as? NIOHTTP2Errors.StreamError)?.baseError ?? error
        guard let closed = error as? NIOHTTP2Errors.StreamClosed else { return false }
        return [.noError, .cancel, .refusedStream].contains(closed.errorCode)
    }

    private static func ofConnection(_ error: any Error, _ url: FetchURL) -> UpstreamError? {
        let place = url.place
        if isEnd(error) || isEndOfStream(error) {
            return UpstreamError(
                .connectionClosed,
                "\(place) closed the connection before the response to \(url.display) was complete; check the log of that server"
            )
        }
        switch error {
        case let error as NIOConnectionError:
            guard let failure = error.connectionErrors.first?.error else {
                return unresolved(url)
            }
            return ofConnection(failure, url) ?? ofLibrary(failure, url)
        case let error as IOError:
            // Here strerror(3) is thread-safe: glibc returns a constant or thread-local text for every code.
            let reason = String(cString: strerror(error.errnoCode))
            return UpstreamError(
                .connectFailed,
                "cannot connect to \(place) for \(url.display): \(reason); check that its server is running",
                originFailure: "cannot connect to \(place): \(reason); check that its server is running")
        case let error as HTTPClientError
        where [.connectTimeout, .tlsHandshakeTimeout, .getConnectionFromPoolTimeout].contains(error):
            return connectTimeout(place, url)
        case ChannelError.connectTimeout:
            return connectTimeout(place, url)
        default:
            return nil
        }
    }

    private static func connectTimeout(_ place: String, _ url: FetchURL) -> UpstreamError {
        UpstreamError(
            .connectFailed, "no connection to \(place) for \(url.display) in time; check the network and that server",
            originFailure: "no connection to \(place) in time; check the network and that server")
    }

    /// The error for a host name without an address.
    ///
    /// - Parameter isLate: whether the lookup timed out
    static func unresolved(_ url: FetchURL, isLate: Bool = false) -> UpstreamError {
        let failure = "the name \(url.host.text) does not resolve" + (isLate ? " in time" : "")
        return UpstreamError(
            .connectFailed, "\(failure); check the address \(url.display) and DNS",
            originFailure: "\(failure); check it and DNS")
    }

    /// Translates errors whose meaning does not depend on whether the body has begun; nil for other errors.
    private static func ofLibrary(_ error: any Error, _ url: FetchURL) -> UpstreamError? {
        switch error {
        case is CancellationError:
            return UpstreamError(.cancelled, "the request to \(url.display) was cancelled")
        case let error as HTTPParserError:
            return UpstreamError(
                .malformedAnswer,
                "\(url.display) did not respond with HTTP (\(error)); check the address and any proxies")
        case let error as HTTPClientError:
            return ofClient(error, url)
        case is NIOSSLError, is NIOSSLExtraError, is BoringSSLError:
            return .tlsFailed(TLSFailure(description: String(describing: error)).text, url)
        default:
            return ofHTTP2(error, url)
        }
    }

    /// Translates errors of the HTTP/2 handlers, whose descriptions contain source locations; nil for other errors.
    private static func ofHTTP2(_ error: any Error, _ url: FetchURL) -> UpstreamError? {
        switch error {
        case let error as NIOHTTP2Errors.StreamError:
            return ofHTTP2(error.baseError, url)
        case is NIOHTTP2Errors.ContentLengthViolated:
            return UpstreamError(
                .truncated,
                "\(url.display) sent a body of another length than its Content-Length; check the server and any proxies"
            )
        case is NIOHTTP2Errors.ContentLengthHeadersMismatch:
            return UpstreamError(
                .malformedAnswer,
                "\(url.display) sent Content-Length fields with different values; check the server and any proxies")
        case let error as NIOHTTP2Errors.StreamClosed:
            return UpstreamError(
                .truncated, "\(url.display) aborted its response (HTTP/2 error \(error.errorCode.networkCode)); \(kept)"
            )
        case let error as any NIOHTTP2Error:
            let name = String(describing: type(of: error))
            return UpstreamError(
                .malformedAnswer,
                "\(url.display) did not respond with HTTP/2 (\(name)); check the server and any proxies")
        default:
            return nil
        }
    }

    static let shutDown = UpstreamError(.shutDown, "the agent is shutting down; retry after it has restarted")

    private static func ofClient(_ error: HTTPClientError, _ url: FetchURL) -> UpstreamError? {
        // HTTPExchange reports cancellation by the caller. Here, `cancelled` comes from the shutdown of the client.
        if error == .alreadyShutdown || error == .cancelled {
            return .shutDown
        }
        guard error.shortDescription.hasPrefix("Invalid header") else { return nil }
        return UpstreamError(
            .invalidRequest,
            "cannot send a header to \(url.display) (\(error.shortDescription)); correct the headers")
    }

    /// The error for a failed handshake.
    /// - Parameter reason: why it failed, and what to do
    static func tlsFailed(_ reason: String, _ url: FetchURL) -> UpstreamError {
        let place = url.place
        return UpstreamError(
            .tlsFailed, "TLS with \(place) for \(url.display) failed: \(reason)",
            originFailure: "TLS with \(place) failed: \(reason)")
    }

    /// The description of an error, on one line of at most 300 characters.
    private static func line(_ error: any Error) -> String {
        String(String(describing: error).prefix(300).map { $0.isNewline ? " " : $0 })
    }
}
