package import LarderConfigModel
package import LarderUpstream
import LarderPlatform

/// The files in PEM form that the connections to a source use. They are read anew for each use: certificates are renewed
/// while the agent runs.
package struct TLSFiles: Sendable, Equatable {
    /// The certificates of the authorities to trust, in place of the system's.
    package var certificateAuthority: String?
    /// The certificate that servers are shown, with those between it and its authority behind it.
    package var certificate: String?
    /// The key of that certificate, without a passphrase; as private as a credential.
    package var privateKey: String?

    package init(certificateAuthority: String? = nil, certificate: String? = nil, privateKey: String? = nil) {
        self.certificateAuthority = certificateAuthority
        self.certificate = certificate
        self.privateKey = privateKey
    }

    /// Room for a bundle of all the authorities there are.
    private static let maximumBytes = 4 << 20

    /// Reads the files; nil where there are none. The disk is waited for.
    ///
    /// - Throws: `upstreamFailed`, naming the file and what to do
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
            throw ConfigError(.upstreamFailed, "the certificates cannot be read")
        }
    }

    private static func pem(
        _ path: String?, mustBePrivate: Bool = false
    ) throws(FileReadError) -> TLSOptions.PEM? {
        guard let path else { return nil }
        let file = StableFileReader(
            name: path.cPath, path: path, maximumBytes: maximumBytes, mustBePrivate: mustBePrivate)
        return TLSOptions.PEM(path: path, bytes: try file.read().bytes)
    }
}
