package import LarderConfigModel
package import LarderUpstream
package import LarderPlatform

/// What an HTTP source shows of itself and whom it trusts. The values of headers may be secrets: they appear in no message.
package struct HTTPAccess: Sendable, Equatable {
    /// Header fields that every request carries.
    package var headers: [String: String]
    /// Sent as `Authorization: Bearer` (RFC 6750).
    package var token: Credential?
    /// Certificates and keys.
    package var tls: TLSFiles

    package init(headers: [String: String] = [:], token: Credential? = nil, tls: TLSFiles = TLSFiles()) {
        self.headers = headers
        self.token = token
        self.tls = tls
    }

    /// Adds to a request what it takes to be let in, read from the files as they are now. Headers that the request has
    /// already stay.
    ///
    /// - Throws: `upstreamFailed`, naming the file that cannot be used and what to do
    package func open(_ request: inout FetchRequest, _ blocking: BlockingWork) async throws(ConfigError) {
        let (access, tls) = (self, tls)
        let (fields, options) = try await blocking.run { () throws(ConfigError) in
            (try access.fields(), try tls.read())
        }
        request.headers = fields + request.headers
        request.tls = options
    }

    /// The header fields that let a request in, the token read from its file as it is now. The disk is waited for.
    ///
    /// - Throws: `upstreamFailed`, naming the file that cannot be used and what to do
    package func fields() throws(ConfigError) -> [(name: String, value: String)] {
        let fields = headers.map { (name: $0.key, value: $0.value) }
        guard let secret = try token?.read() else { return fields }
        guard secret.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f }) else {
            throw ConfigError(
                .upstreamFailed,
                "\(token.map(Self.name) ?? "the token") holds spaces or other characters that no token has; "
                    + "replace it")
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
    /// What is there, without the values of the headers.
    package var description: String {
        let names = headers.keys.sorted().joined(separator: ", ")
        return "HTTPAccess(headers: [\(names)], token: \(token.map(Self.name) ?? "none"), tls: \(tls))"
    }

    /// The same as ``description``: what prints a value that contains this one asks for it.
    package var debugDescription: String { description }
}
