package import LarderConfigModel
package import LarderJSON
package import LarderUpstream
package import LarderPlatform

/// The credentials for an HTTP source and the certificate authorities that are trusted for it. Header values may be
/// secrets, so they do not appear in messages.
package struct HTTPAccess: Sendable, Equatable {
    /// Header fields of every request.
    @ComparedAsBytes package var headers: [String: String]
    /// The token that is sent as `Authorization: Bearer` (RFC 6750); nil for none.
    package var token: Credential?
    /// The certificates and the private key for TLS.
    package var tls: TLSFiles

    package init(headers: [String: String] = [:], token: Credential? = nil, tls: TLSFiles = TLSFiles()) {
        self.headers = headers
        self.token = token
        self.tls = tls
    }

    /// Adds the header fields and TLS options to a request. The files are read for each request. Existing header fields
    /// of the request take precedence.
    ///
    /// - Throws: `upstreamFailed`, naming the file that cannot be used
    package func open(_ request: inout FetchRequest, _ blocking: BlockingWork) async throws(ConfigError) {
        let (access, tls) = (self, tls)
        let (fields, options) = try await blocking.run { () throws(ConfigError) in
            (try access.fields(), try tls.read())
        }
        request.headers = fields + request.headers
        request.tls = options
    }

    /// Returns the header fields, with the current content of the token file. Blocks on disk I/O.
    ///
    /// - Throws: `upstreamFailed`, naming the file that cannot be used
    package func fields() throws(ConfigError) -> [(name: String, value: String)] {
        let fields = headers.map { (name: $0.key, value: $0.value) }
        guard let secret = try token?.read() else { return fields }
        guard secret.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            throw ConfigError(
                .upstreamFailed,
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
