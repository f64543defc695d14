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

    /// Whether the same request may succeed later without a change of the settings.
    ///
    /// For a status, this is true for 408, 425, 429 and 5xx, except 501 and 505.
    package var isRetryable: Bool {
        guard let status, code == .status else { return code.isRetryable }
        switch status {
        case 408, 425, 429: return true
        case 501, 505: return false
        default: return status >= 500
        }
    }

    package var description: String { "\(code): \(message)" }
}

extension UpstreamError {
    /// A kind of failure.
    package enum Code: String, Sendable {
        /// The URL is not a valid absolute `http` or `https` URL, or it contains credentials.
        case invalidURL
        /// The host of the URL, or of the target of a redirect, has no address that the settings allow.
        case forbiddenAddress
        /// A header field, or another option of the request, is invalid.
        case invalidRequest
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

        fileprivate var isRetryable: Bool {
            switch self {
            case .connectFailed, .tlsFailed, .timeout, .tooSlow, .connectionClosed, .truncated, .malformedAnswer,
                .empty,
                .cancelled, .other:
                true
            case .invalidURL, .forbiddenAddress, .invalidRequest, .unsupportedEncoding, .tooLarge, .status,
                .tooManyRedirects, .invalidRedirect, .shutDown:
                false
            }
        }
    }
}
