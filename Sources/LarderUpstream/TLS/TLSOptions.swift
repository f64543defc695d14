internal import NIOSSL

/// What a TLS connection trusts, and what it shows of itself. Two of the same files share their connections.
package struct TLSOptions: Sendable, Hashable {
    /// The content of a file in PEM form (RFC 7468), with its path for messages.
    package struct PEM: Sendable {
        /// The file's path.
        package var path: String
        package var bytes: [UInt8]

        package init(path: String, bytes: [UInt8]) {
            self.path = path
            self.bytes = bytes
        }
    }

    private let authorities: [NIOSSLCertificate]
    private let chain: [NIOSSLCertificate]
    private let key: NIOSSLPrivateKey?

    /// Reads certificates and keys.
    ///
    /// - Parameters:
    ///   - authorities: the certificates to trust in place of the system's; nil for the system's
    ///   - certificate: the certificate that the server is shown, and those between it and its authority
    ///   - privateKey: its key, not encrypted
    /// - Throws: ``UpstreamError/Code/invalidRequest`` naming the file that is no PEM; `privateKey` and `certificate` only
    ///   go together
    package init(authorities: PEM?, certificate: PEM?, privateKey: PEM?) throws(UpstreamError) {
        self.authorities = try authorities.map(Self.certificates) ?? []
        chain = try certificate.map(Self.certificates) ?? []
        guard (certificate == nil) == (privateKey == nil) else {
            throw UpstreamError(.invalidRequest, "a client certificate and its private key only go together")
        }
        guard let certificate, let privateKey else {
            key = nil
            return
        }
        do {
            key = try NIOSSLPrivateKey(bytes: privateKey.bytes, format: .pem)
        } catch {
            // The library's words may quote what it could not read.
            throw UpstreamError(
                .invalidRequest, "\(privateKey.path) holds no private key in PEM form without a passphrase; replace it")
        }
        guard hasMatchingKey else {
            throw UpstreamError(
                .invalidRequest,
                "\(privateKey.path) is not the key of the first certificate in \(certificate.path); replace one of the two, "
                    + "or put the client's own certificate first")
        }
    }

    /// Whether the key is that of the first certificate: a TLS context refuses any other.
    private var hasMatchingKey: Bool {
        var configuration = configuration(withIdentity: true)
        // The system's authorities take milliseconds to load.
        configuration.trustRoots = .certificates([])
        configuration.certificateVerification = .none
        return (try? NIOSSLContext(configuration: configuration)) != nil
    }

    private static func certificates(_ file: PEM) throws(UpstreamError) -> [NIOSSLCertificate] {
        if let certificates = try? NIOSSLCertificate.fromPEMBytes(file.bytes), !certificates.isEmpty {
            return certificates
        }
        throw UpstreamError(.invalidRequest, "\(file.path) holds no certificate in PEM form; replace it")
    }

    /// - Parameter withIdentity: whether the server may see the client's certificate
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
