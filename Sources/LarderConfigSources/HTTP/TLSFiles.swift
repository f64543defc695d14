package import LarderConfigModel
package import LarderJSON
package import LarderUpstream
import LarderPlatform

/// The PEM files for connections to a source. They are read for each request, because certificates may be renewed while
/// the agent runs.
package struct TLSFiles: Sendable, Equatable {
    /// The file with the certificates of the trusted authorities; nil to trust those of the system.
    @ComparedAsBytes package var certificateAuthority: String?
    /// The file with the client certificate, followed by the intermediate certificates; nil for no client certificate.
    @ComparedAsBytes package var certificate: String?
    /// The file with the key of the client certificate, without a passphrase; nil for no client certificate. Other
    /// users must not be able to read the file.
    @ComparedAsBytes package var privateKey: String?

    package init(certificateAuthority: String? = nil, certificate: String? = nil, privateKey: String? = nil) {
        self.certificateAuthority = certificateAuthority
        self.certificate = certificate
        self.privateKey = privateKey
    }

    /// The maximum size of a file in bytes. Enough for a bundle of all public authorities.
    private static let maximumBytes = 4 << 20

    /// Reads the files. Nil if the settings name none. Blocks on disk I/O.
    ///
    /// - Throws: `upstreamFailed`, naming the file
    package func read() throws(ConfigError) -> TLSOptions? {
        if self == TLSFiles() { return nil }
        do {
            return try TLSOptions(
                authorities: Self.pem(certificateAuthority), certificate: Self.pem(certificate),
                privateKey: Self.pem(privateKey, mustBePrivate: true))
        } catch let error as FileReadError {
            throw ConfigError(.upstreamFailed, "\(error)")
        } catch let error as UpstreamError {
            throw ConfigError(.upstreamFailed, error.message)
        } catch {
            throw ConfigError(.upstreamFailed, "cannot read the certificates")
        }
    }

    static func pem(
        _ path: String?, mustBePrivate: Bool = false
    ) throws(FileReadError) -> TLSOptions.PEM? {
        guard let path else { return nil }
        let file = StableFileReader(
            name: path.cPath, path: path, maximumBytes: maximumBytes, mustBePrivate: mustBePrivate)
        return TLSOptions.PEM(path: path, bytes: try file.read().bytes)
    }
}
