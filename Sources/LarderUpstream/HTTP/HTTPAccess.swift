import Glibc
internal import LarderEncoding
package import LarderJSON
package import LarderPlatform

/// The credentials for requests to an origin, the certificate authorities that are trusted for them, and their proxy. Header
/// values may be secrets, so they do not appear in messages.
package struct HTTPAccess: Sendable, Equatable {
    /// Header fields of every request.
    @ComparedAsBytes package var headers: [String: String]
    /// The token that is sent as `Authorization: Bearer` (RFC 6750); nil for none.
    package var token: Credential?
    /// The certificates and the private key for TLS.
    package var tls: TLSFiles
    package var proxy = ProxyChoice.inherited

    package init(headers: [String: String] = [:], token: Credential? = nil, tls: TLSFiles = TLSFiles()) {
        self.headers = headers
        self.token = token
        self.tls = tls
    }

    /// Adds the header fields and TLS options to a request. The files are read for each request. Existing header fields
    /// of the request take precedence.
    ///
    /// - Throws: ``UpstreamError/Code/unusableFile``, naming the file that cannot be used
    package func open(_ request: inout FetchRequest, _ blocking: BlockingThreadPool) async throws(UpstreamError) {
        let access = self
        let (fields, tls, proxy) = try await blocking.run { () throws(UpstreamError) in
            (try access.fields(), try access.tls.read(), try access.proxy.settings?.read())
        }
        request.headers = fields + request.headers
        (request.tls, request.proxy) = (tls, proxy)
    }

    /// Returns the header fields, with the current content of the token file. Blocks on disk I/O.
    ///
    /// - Throws: ``UpstreamError/Code/unusableFile``, naming the file that cannot be used
    package func fields() throws(UpstreamError) -> [(name: String, value: String)] {
        let fields = headers.map { (name: $0.key, value: $0.value) }
        guard let secret = try token?.read() else { return fields }
        guard secret.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            throw UpstreamError(
                .unusableFile,
                "\(token.map(Self.name) ?? "the token") contains spaces or other characters that are not "
                    + "allowed in a token; replace it")
        }
        return fields + [("Authorization", "Bearer \(secret)")]
    }

    private static func name(_ token: Credential) -> String {
        switch token {
        case .file(let path): path
        case .systemd(let name): "the credential \(name)"
        }
    }
}

extension HTTPAccess: CustomStringConvertible, CustomDebugStringConvertible {
    /// The names of the headers, the token's location and the TLS files, without secrets.
    package var description: String {
        let names = headers.keys.sorted().joined(separator: ", ")
        return "HTTPAccess(headers: [\(names)], token: \(token.map(Self.name) ?? "none"), tls: \(tls))"
    }

    /// The same as ``description``. Swift prints this property instead of ``description`` if another value contains
    /// this one.
    package var debugDescription: String { description }
}

/// The location of a secret: a token or a password. The secret is read for each use, so that a replacement takes effect
/// at once. Descriptions and messages may contain this location, never the secret.
package enum Credential: Sendable, Equatable {
    /// A file that belongs to the agent's user or to root and that others cannot read.
    case file(String)
    /// A systemd credential of the service, by name (`LoadCredential=`, systemd.exec(5)).
    case systemd(String)

    package static func == (left: Credential, right: Credential) -> Bool {
        switch (left, right) {
        case (.file(let left), .file(let right)), (.systemd(let left), .systemd(let right)): left.isSpelled(as: right)
        default: false
        }
    }

    /// The maximum size of a secret, in bytes.
    package static let maximumBytes = 64 * 1024

    /// Reads the secret, without trailing line breaks. Blocks on disk I/O.
    ///
    /// - Parameter directory: the directory of the systemd credentials, by default `$CREDENTIALS_DIRECTORY`
    /// - Throws: ``UpstreamError/Code/unusableFile``, with the name of the file but not its content
    package func read(systemd directory: String? = Self.systemdDirectory) throws(UpstreamError) -> String {
        let path: String
        switch self {
        case .file(let file): path = file
        case .systemd(let name):
            guard let directory else {
                throw UpstreamError(
                    .unusableFile,
                    "there is no credential \"\(name)\": systemd passed none to the agent; add "
                        + "LoadCredential=\(name):FILE to its unit, or name a file")
            }
            path = directory + "/" + name
        }
        do throws(FileReadError) {
            // systemd restricts access to the directory of the credentials, so the mode of the files in it does not
            // matter.
            let isGuarded = if case .systemd = self { true } else { false }
            let bytes = try StableFileReader(
                name: path.cPath, path: path, maximumBytes: Self.maximumBytes, mustBePrivate: !isGuarded
            ).read().bytes
            guard let text = String(validating: ByteOrderMark.dropped(from: bytes), as: UTF8.self) else {
                throw FileReadError(.ioFailed, path, "it is not UTF-8 text; replace it")
            }
            let secret = text.trimmingLineEnds
            guard !secret.isEmpty else { throw FileReadError(.empty, path, "it is empty; write the secret to it") }
            return secret
        } catch {
            throw UpstreamError(.unusableFile, "\(error)")
        }
    }

    /// `$CREDENTIALS_DIRECTORY`, which does not change after the start of the agent.
    private static var systemdDirectory: String? { getenv("CREDENTIALS_DIRECTORY").map { String(cString: $0) } }
}

extension String {
    /// The text without trailing line breaks, which most editors and `echo` add.
    fileprivate var trimmingLineEnds: String {
        var scalars = unicodeScalars[...]
        while let last = scalars.last, last == "\n" || last == "\r" { scalars.removeLast() }
        return String(scalars)
    }
}

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
    /// When the certificates expire, as of the last ``read()``.
    private let expiry = CertificateExpiry()

    package init(certificateAuthority: String? = nil, certificate: String? = nil, privateKey: String? = nil) {
        self.certificateAuthority = certificateAuthority
        self.certificate = certificate
        self.privateKey = privateKey
    }

    /// The maximum size of a file in bytes. Enough for a bundle of all public authorities.
    private static let maximumBytes = 4 << 20

    /// Reads the files. Nil if the settings name none. Blocks on disk I/O.
    ///
    /// - Throws: ``UpstreamError/Code/unusableFile``, naming the file
    package func read() throws(UpstreamError) -> TLSOptions? {
        if self == TLSFiles() { return nil }
        let options = try TLSOptions(
            authorities: Self.pem(certificateAuthority), certificate: Self.pem(certificate),
            privateKey: Self.pem(privateKey, mustBePrivate: true))
        expiry.time = options.expiry
        return options
    }

    /// When the first certificate expires, in seconds since 1970, and its file, as of the last ``read()``; nil without
    /// certificates.
    package var firstExpiry: (seconds: Int, file: String)? {
        expiry.time.map { ($0.seconds, ($0.isAuthority ? certificateAuthority : certificate) ?? "") }
    }

    static func pem(
        _ path: String?, mustBePrivate: Bool = false
    ) throws(UpstreamError) -> TLSOptions.PEM? {
        guard let path else { return nil }
        let file = StableFileReader(
            name: path.cPath, path: path, maximumBytes: maximumBytes, mustBePrivate: mustBePrivate)
        do throws(FileReadError) {
            return TLSOptions.PEM(path: path, bytes: try file.read().bytes)
        } catch {
            throw UpstreamError(.unusableFile, "\(error)")
        }
    }
}
