internal import NIOSSL
internal import Synchronization

/// The trusted authorities and the client certificate of a TLS connection. Requests with equal options share
/// connections.
package struct TLSOptions: Sendable, Hashable {
    /// The content of a PEM file (RFC 7468), with its path for messages.
    package struct PEM: Sendable {
        package var path: String
        package var bytes: [UInt8]
    }

    private let authorities: [NIOSSLCertificate]
    private let chain: [NIOSSLCertificate]
    private let key: NIOSSLPrivateKey?

    /// Parses certificates and keys.
    ///
    /// - Parameters:
    ///   - authorities: the trusted authorities, instead of those of the system; nil for those of the system
    ///   - certificate: the client certificate, followed by intermediate certificates
    ///   - privateKey: the key of the client certificate, without a passphrase
    /// - Throws: ``UpstreamError/Code/invalidRequest`` if a file is not valid PEM, if only one of `certificate` and
    ///   `privateKey` is set, or if they do not match
    package init(authorities: PEM?, certificate: PEM?, privateKey: PEM?) throws(UpstreamError) {
        self.authorities = try authorities.map(Self.certificates) ?? []
        chain = try certificate.map(Self.certificates) ?? []
        guard (certificate == nil) == (privateKey == nil) else {
            throw UpstreamError(.invalidRequest, "a client certificate and its private key are only valid together")
        }
        guard let certificate, let privateKey else {
            key = nil
            return
        }
        do {
            key = try NIOSSLPrivateKey(bytes: privateKey.bytes, format: .pem)
        } catch {
            // The error text of the library may quote the file, which may contain a private key.
            throw UpstreamError(
                .invalidRequest,
                "\(privateKey.path) does not contain a PEM private key without a passphrase; replace it")
        }
        guard hasMatchingKey else {
            throw UpstreamError(
                .invalidRequest,
                "\(privateKey.path) is not the key of the first certificate in \(certificate.path); replace one of the two, "
                    + "or put the client's own certificate first")
        }
    }

    /// Whether the key belongs to the first certificate. Only then can a TLS context be created with both.
    private var hasMatchingKey: Bool {
        var configuration = configuration(withIdentity: true)
        // Loading the authorities of the system takes milliseconds, and this check does not need them.
        configuration.trustRoots = .certificates([])
        configuration.certificateVerification = .none
        return (try? NIOSSLContext(configuration: configuration)) != nil
    }

    private static func certificates(_ file: PEM) throws(UpstreamError) -> [NIOSSLCertificate] {
        if let certificates = try? NIOSSLCertificate.fromPEMBytes(file.bytes), !certificates.isEmpty {
            return certificates
        }
        throw UpstreamError(.invalidRequest, "\(file.path) does not contain a PEM certificate; replace it")
    }

    /// When the connection fails first because a certificate expires, in seconds since 1970: when the first certificate of
    /// the client's chain expires, or the last authority. Nil without certificates.
    var expiry: (seconds: Int, isAuthority: Bool)? {
        let client = chain.map { Int($0.notValidAfter) }.min().map { ($0, false) }
        let authority = authorities.map { Int($0.notValidAfter) }.max().map { ($0, true) }
        return [client, authority].compactMap(\.self).min { $0.0 < $1.0 }
    }

    /// - Parameter withIdentity: whether the connection presents the client certificate
    func configuration(withIdentity: Bool) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        if !authorities.isEmpty { configuration.trustRoots = .certificates(authorities) }
        if withIdentity, let key {
            configuration.certificateChain = chain.map { .certificate($0) }
            configuration.privateKey = .privateKey(key)
        }
        return configuration
    }
}

/// When certificates that are read for each request expire. Settings share it with their copies. It does not matter when
/// settings are compared.
package final class CertificateExpiry: Sendable, Equatable {
    /// Twice the time in seconds since 1970, plus 1 for an authority; ``unknown`` before the first read.
    private let value = Atomic(CertificateExpiry.unknown)
    private static let unknown = Int.min

    /// The time in seconds since 1970, and whether it is that of an authority; nil if it is unknown.
    package internal(set) var time: (seconds: Int, isAuthority: Bool)? {
        get {
            let value = value.load(ordering: .relaxed)
            return value == Self.unknown ? nil : (value >> 1, value & 1 == 1)
        }
        set {
            value.store(
                newValue.map { $0.seconds << 1 | ($0.isAuthority ? 1 : 0) } ?? Self.unknown, ordering: .relaxed)
        }
    }

    package static func == (_: CertificateExpiry, _: CertificateExpiry) -> Bool { true }
}
