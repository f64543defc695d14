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
    /// A kind of failure. More kinds may be added; compare with the static members.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String {
            case invalidURL, forbiddenAddress, invalidRequest, connectFailed, tlsFailed, timeout, tooSlow,
                connectionClosed
            case truncated, malformedAnswer, unsupportedEncoding, tooLarge, empty, status
            case tooManyRedirects, invalidRedirect, cancelled, shutDown, other
        }

        private let kind: Kind

        private init(_ kind: Kind) { self.kind = kind }

        /// The URL is not a valid absolute `http` or `https` URL, or it contains credentials.
        package static let invalidURL = Code(.invalidURL)
        /// The host of the URL, or of the target of a redirect, has no address that the settings allow.
        package static let forbiddenAddress = Code(.forbiddenAddress)
        /// A header field, or another option of the request, is invalid.
        package static let invalidRequest = Code(.invalidRequest)
        /// The name did not resolve, or the connection was refused or timed out.
        package static let connectFailed = Code(.connectFailed)
        /// The TLS handshake failed, most often because of a certificate.
        package static let tlsFailed = Code(.tlsFailed)
        /// The origin was silent for too long, or the whole response took too long.
        package static let timeout = Code(.timeout)
        /// The body arrived more slowly than ``FetchTimeouts`` allows.
        package static let tooSlow = Code(.tooSlow)
        /// The connection ended before the response began.
        package static let connectionClosed = Code(.connectionClosed)
        /// The response ended early.
        package static let truncated = Code(.truncated)
        /// The response is not HTTP, or does not fit the request.
        package static let malformedAnswer = Code(.malformedAnswer)
        /// The body has a content coding that was not requested, or is not validly encoded.
        package static let unsupportedEncoding = Code(.unsupportedEncoding)
        /// The body, after decoding, or its declared length exceeds ``FetchRequest/maximumBytes``.
        package static let tooLarge = Code(.tooLarge)
        /// The response has a success status but no body.
        package static let empty = Code(.empty)
        /// The status code means that there is no document; see ``UpstreamError/status``.
        package static let status = Code(.status)
        package static let tooManyRedirects = Code(.tooManyRedirects)
        /// The redirect has no usable target, leads from `https` to `http`, or would change the method or origin of a
        /// POST.
        package static let invalidRedirect = Code(.invalidRedirect)
        package static let cancelled = Code(.cancelled)
        /// The fetcher was shut down.
        package static let shutDown = Code(.shutDown)
        /// Any other failure; the message contains the error text of the library.
        package static let other = Code(.other)

        package var description: String { kind.rawValue }

        fileprivate var isRetryable: Bool {
            switch kind {
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
