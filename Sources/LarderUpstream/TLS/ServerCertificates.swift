import Glibc
import LarderEncoding
internal import NIOCore
internal import NIOPosix
internal import NIOSSL

/// The validity periods of the certificates that a server presents. Used to find out why the certificates are not
/// trusted, because the TLS library does not report the reason.
struct ServerCertificates: Sendable {
    /// When a certificate is valid, in seconds since 1970.
    struct Validity: Sendable, Equatable {
        let begin: Int
        let end: Int
    }

    /// The first period is that of the server's own certificate.
    let validities: [Validity]

    /// Opens a new connection to read the certificates, and closes the connection before the handshake completes.
    ///
    /// - Parameters:
    ///   - address: the address to connect to; nil for any address of the host
    ///   - timeout: the maximum time for the connection and the handshake together
    /// - Returns: nil if the server cannot be reached, the timeout expires, or the task is cancelled
    static func read(
        from url: FetchURL, at address: String?, on group: any EventLoopGroup, timeout: Duration
    ) async -> ServerCertificates? {
        guard let context = try? NIOSSLContext(configuration: .makeClientConfiguration()) else { return nil }
        let loop = group.next()
        let result = loop.makePromise(of: [Validity].self)
        let limit = loop.scheduleTask(in: TimeAmount(timeout)) {
            result.fail(ChannelError.connectTimeout(TimeAmount(timeout)))
        }
        let connection = ClientBootstrap(group: loop)
            .connectTimeout(TimeAmount(timeout))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let handler = try NIOSSLClientHandler(
                        context: context, serverHostname: url.host.address == nil ? url.host.name : nil,
                        customVerificationCallback: { certificates, verdict in
                            result.succeed(certificates.map(Validity.init))
                            verdict.succeed(.failed)
                        })
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
            }
            .connect(host: address ?? url.host.text, port: url.port)
        connection.whenFailure { result.fail($0) }
        connection.whenSuccess { $0.closeFuture.whenComplete { _ in result.fail(ChannelError.eof) } }
        let validities = await withTaskCancellationHandler {
            try? await result.futureResult.get()
        } onCancel: {
            result.fail(CancellationError())
        }
        limit.cancel()
        connection.whenSuccess { $0.close(promise: nil) }
        return validities.map(ServerCertificates.init)
    }

    /// Returns which certificate is not valid at a time, and what to do; nil if all are valid.
    /// - Parameter now: seconds since 1970
    func problem(at now: Int) -> String? {
        for (index, validity) in validities.enumerated() {
            let name = index == 0 ? "its certificate" : "an intermediate certificate"
            if now > validity.end {
                return
                    "\(name) expired on \(Self.text(validity.end)); renew it on the server, or correct the clock of this host"
            }
            if now < validity.begin {
                return
                    "\(name) is not valid before \(Self.text(validity.begin)); correct the clock of this host, or replace the certificate"
            }
        }
        return nil
    }

    private static func text(_ seconds: Int) -> String { tm(seconds: seconds).text("%F %T UTC") }
}

extension ServerCertificates.Validity {
    fileprivate init(_ certificate: NIOSSLCertificate) {
        self.init(begin: Int(certificate.notValidBefore), end: Int(certificate.notValidAfter))
    }
}

/// The reason of a TLS failure, extracted from the error text of NIOSSL. The reason names of BoringSSL (err.h, ssl.h)
/// are translated; the rest of the text, such as source locations, is dropped. The advice is for sources and for images,
/// for which the settings name neither authorities nor client certificates.
struct TLSFailure: Sendable {
    /// The failure and what to do.
    let text: String
    /// Whether the server's certificate was rejected. The library does not report why.
    let isUntrusted: Bool

    /// Parses the description of an error, such as
    /// `handshakeFailed(… error:1000007d:SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED at
    /// /src/handshake.cc:320)`.
    init(description: String) {
        let reasons = Self.reasons(in: description)
        isUntrusted = reasons.contains("CERTIFICATE_VERIFY_FAILED")
        if description.contains("failedToValidateHostname") {
            text = "its certificate is for another name; use a name in the certificate, or replace it"
        } else if description.contains("EOF during handshake") {
            text =
                "it closed the connection during the TLS handshake; it may not use TLS: check the port, or try http://"
        } else if description.hasSuffix("unknownError([])") {
            // BoringSSL reports an empty list of errors if it finds no authority certificates to load.
            text =
                "this host has no authority certificates; install ca-certificates and restart the agent, or name the "
                + "authority of a source in certificateAuthority"
        } else if let (reason, advice) = reasons.lazy.compactMap({ reason in
            Self.advice(on: reason).map { (reason, $0) }
        }).first {
            text = "\(advice) (\(reason))"
        } else {
            let words = reasons.isEmpty ? Self.withoutPlaces(description) : reasons.joined(separator: ", ")
            text = "\(words); check its certificate and the trusted authorities"
        }
    }

    /// The reason names, each of which follows `OPENSSL_internal:` in the description.
    private static func reasons(in description: String) -> [String] {
        description.split(separator: "OPENSSL_internal:", omittingEmptySubsequences: false).dropFirst().map { rest in
            String(rest.prefix { $0.isASCII && ($0.isUppercase || $0.isNumber || $0 == "_") })
        }.filter { !$0.isEmpty }
    }

    private static func advice(on reason: String) -> String? {
        switch reason {
        case "CERTIFICATE_VERIFY_FAILED":
            "its certificate is not signed by a trusted authority, or is for another name; add its authority to this "
                + "host (update-ca-certificates(8)) and restart the agent, name that of a source in "
                + "certificateAuthority, or replace the certificate"
        case "TLSV1_ALERT_CERTIFICATE_REQUIRED", "TLSV13_ALERT_CERTIFICATE_REQUIRED":
            "it requires a client certificate, which only sources can have; set certificate and privateKey there"
        case "SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_REVOKED",
            "SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_UNKNOWN", "TLSV1_ALERT_UNKNOWN_CA",
            "TLSV1_ALERT_ACCESS_DENIED":
            "it rejected the client certificate; check certificate and privateKey"
        case "SSLV3_ALERT_HANDSHAKE_FAILURE":
            "it refused the handshake; if it requires a client certificate, set certificate and privateKey of the source"
        case "WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST":
            "it does not use TLS on this port; check the port, or use http"
        default:
            nil
        }
    }

    /// The description without source locations, on one line of at most 300 characters.
    private static func withoutPlaces(_ description: String) -> String {
        var words: [Substring] = []
        for word in description.split(whereSeparator: \.isWhitespace) {
            guard word.first == "/" else {
                words.append(word)
                continue
            }
            if words.last == "at" { words.removeLast() }
        }
        return String(words.joined(separator: " ").prefix(300))
    }
}
