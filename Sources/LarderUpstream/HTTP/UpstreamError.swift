/// Why a remote source gave no usable answer.
///
/// The error is a value that can be kept, compared and shown: ``message`` is one line that says what happened and what
/// to do about it, and never holds a query string, a header or a credential.
package struct UpstreamError: Error, Sendable, Hashable, CustomStringConvertible {
    package let code: Code
    /// The status code of the answer, where there was one that decided the failure.
    package let status: Int?
    /// How long the origin asked us to stay away (`Retry-After`, RFC 9110, section 10.2.3), never negative.
    package let retryAfter: Duration?
    /// One line: what happened, and what to do.
    package let message: String
    /// Why the URL's own origin cannot be reached, whatever is asked of it: its name, the connection or TLS. It has nothing
    /// of the URL but its host and port, so that others may be told. Nothing where the failure may be one of this URL only,
    /// or is one of another origin behind a redirect.
    package let originFailure: String?

    /// Makes an error from its parts.
    ///
    /// - Parameters:
    ///   - code: the kind of failure
    ///   - message: one line, without secrets
    ///   - status: the status code that decided the failure
    ///   - retryAfter: the time the origin asked for
    ///   - originFailure: why the URL's own origin cannot be reached, if it is that
    package init(
        _ code: Code, _ message: String, status: Int? = nil, retryAfter: Duration? = nil, originFailure: String? = nil
    ) {
        self.code = code
        self.message = message
        self.status = status
        self.retryAfter = retryAfter
        self.originFailure = originFailure
    }

    /// The same where a redirect led to another origin: it says nothing about the URL's own.
    var behindRedirect: UpstreamError {
        UpstreamError(code, message, status: status, retryAfter: retryAfter)
    }

    /// Whether the same request may succeed later although nobody changes the settings of this machine.
    ///
    /// A status is retryable when it speaks of the moment (408, 425, 429, and 5xx but for 501 and 505) and not of the
    /// request.
    package var isRetryable: Bool {
        guard let status, code == .status else { return code.isRetryable }
        switch status {
        case 408, 425, 429: return true
        case 501, 505: return false
        default: return status >= 500
        }
    }

    /// The code and the message.
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

        /// The address is not an absolute `http` or `https` URL that we are willing to fetch.
        package static let invalidURL = Code(.invalidURL)
        /// The host, of the URL or of a redirect, is at an address that the settings do not allow.
        package static let forbiddenAddress = Code(.forbiddenAddress)
        /// A header of the request cannot be sent.
        package static let invalidRequest = Code(.invalidRequest)
        /// The name did not resolve, or nobody accepted the connection, or not in time.
        package static let connectFailed = Code(.connectFailed)
        /// The TLS handshake failed, most often over a certificate.
        package static let tlsFailed = Code(.tlsFailed)
        /// The next bytes or the whole answer took too long.
        package static let timeout = Code(.timeout)
        /// The body came more slowly than ``FetchTimeouts`` allows.
        package static let tooSlow = Code(.tooSlow)
        /// The connection ended before the answer began.
        package static let connectionClosed = Code(.connectionClosed)
        /// The answer ended before its declared end.
        package static let truncated = Code(.truncated)
        /// The answer is not HTTP, or not one that fits the request.
        package static let malformedAnswer = Code(.malformedAnswer)
        /// The body carries a content coding that we did not ask for, or is not what its coding says.
        package static let unsupportedEncoding = Code(.unsupportedEncoding)
        /// The body is larger than the caller allows.
        package static let tooLarge = Code(.tooLarge)
        /// The answer is a success without a body.
        package static let empty = Code(.empty)
        /// The status code says that there is no document; see ``UpstreamError/status``.
        package static let status = Code(.status)
        package static let tooManyRedirects = Code(.tooManyRedirects)
        /// A redirect without a usable target, or one from `https` to `http`.
        package static let invalidRedirect = Code(.invalidRedirect)
        /// The task that asked was cancelled.
        package static let cancelled = Code(.cancelled)
        /// The fetcher was shut down.
        package static let shutDown = Code(.shutDown)
        /// Anything else; the message has the words of the library that failed.
        package static let other = Code(.other)

        /// The name of the code, as it is written here.
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
