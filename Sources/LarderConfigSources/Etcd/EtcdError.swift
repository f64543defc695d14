import LarderConfigModel
import LarderJSON
import LarderUpstream

/// The error of a request to etcd.
struct EtcdError: Error, Sendable, Equatable {
    package enum Kind: Sendable {
        /// The endpoint is not available. Another one may be.
        case unavailable
        /// The token is missing or has expired.
        case unauthenticated
        /// The requested revision is no longer available. All keys have to be read again.
        case compacted
        /// The request is not allowed or not valid. Every endpoint would return the same error.
        case refused
        /// The keys do not form a valid document.
        case rejected
        case cancelled
    }

    let kind: Kind
    /// The reason and a hint, in one line, without secrets.
    let message: String

    init(_ kind: Kind, _ message: String) {
        self.kind = kind
        self.message = message
    }

    /// The error of a response that was not parsed completely.
    static let parseCancelled = EtcdError(.cancelled, "the response was not parsed; the request was cancelled")

    /// The ``ConfigError`` that a fetch throws for this error.
    var configError: ConfigError {
        switch kind {
        case .cancelled: ConfigError(.cancelled, message)
        case .rejected: ConfigError(.rejected, message)
        case .unavailable, .unauthenticated, .compacted, .refused: ConfigError(.upstreamFailed, message)
        }
    }
}

/// An error in the format of etcd's gateway, which depends on the version and the call:
///
/// - a call, etcd 3.4 and 3.5: `{"error":"TEXT","message":"TEXT","code":11}`; 3.6:
///   `{"code":11,"message":"TEXT","details":[]}`
/// - a watch, etcd 3.4: `{"error":{"grpc_code":14,"http_code":503,"message":"TEXT","http_status":"…"}}`; later:
///   `{"error":{"code":14,"message":"TEXT","details":[]}}`
struct EtcdErrorResponse: Sendable, Equatable {
    /// The gRPC status code; nil if it is missing.
    var code: Int?
    var text: String

    /// Parses the body of a response with an error status, or a message of a watch; nil if it is not an error.
    init?(_ value: JSONValue) {
        let inner = value["error"]?.kind == .object ? value["error"] : value
        guard let inner, let text = inner["message"]?.string ?? inner["error"]?.string else { return nil }
        self.text = text
        code = (inner["code"] ?? inner["grpc_code"])?.int
    }

    /// Parses the reason of a cancelled watch: `rpc error: code = PermissionDenied desc = TEXT`, or only the text.
    init(cancelReason reason: String) {
        guard let start = reason.firstRange(of: " desc = ") else {
            code = nil
            text = reason
            return
        }
        text = String(reason[start.upperBound...])
        let name = reason[..<start.lowerBound].split(separator: " ").last ?? ""
        code = ["Unauthenticated": 16, "PermissionDenied": 7, "InvalidArgument": 3, "Unavailable": 14][name]
    }

    /// - Parameter status: the HTTP status of the response; nil in a watch
    func error(from endpoint: String, status: Int? = nil) -> EtcdError {
        let report = "etcd at \(endpoint) reported: \(Self.line(text))"
        if text.contains("auth token") || text.contains("auth store is old") || text.contains("user name is empty") {
            return EtcdError(.unauthenticated, report + "; check the user and password in the settings")
        }
        switch code {
        case 16: return EtcdError(.unauthenticated, report + "; check the user and password in the settings")
        case 11: return EtcdError(.compacted, report)
        case 7: return EtcdError(.refused, report + "; grant the user's role to read these keys")
        case 3, 5, 6, 9, 12: return EtcdError(.refused, report)
        case nil:
            let isTheirs = status.map { $0 >= 500 } ?? true
            return EtcdError(isTheirs ? .unavailable : .refused, report)
        default: return EtcdError(.unavailable, report)
        }
    }

    /// Text from another program, on one line of at most 300 characters.
    static func line(_ text: String) -> String {
        String(text.unicodeScalars.prefix(300).map { $0.value < 0x20 || $0.value == 0x7f ? " " : Character($0) })
    }
}

extension EtcdError {
    /// Wraps an error of the HTTP client.
    init(_ error: UpstreamError) {
        switch error.code {
        case .cancelled: self.init(.cancelled, error.message)
        case .invalidRequest, .invalidURL, .unusableFile: self.init(.refused, error.message)
        default: self.init(.unavailable, error.message)
        }
    }
}
