import Glibc
import LarderEncoding
internal import LarderPlatform

/// A file with a credential or a certificate that cannot be used.
package struct AccessProblem: Sendable, Hashable, CustomStringConvertible {
    /// One line that names the file and the reason.
    package let description: String
    /// The path of the file.
    package let path: String
    /// Whether this user is not allowed to read the file. The agent's user may be.
    package let isDenied: Bool
    /// Whether the file can be used, but a certificate in it has expired.
    package var isExpiry = false

    /// Calls `read`, which reads the file at a path and may block on disk I/O.
    static func found(at path: String, _ read: () throws(UpstreamError) -> Void) -> [AccessProblem] {
        do throws(UpstreamError) {
            try read()
            return []
        } catch {
            return [AccessProblem(description: error.message, path: path, isDenied: isAccessDenied(path))]
        }
    }
}

extension HTTPAccess {
    /// Checks the files with the token, the certificates and the password of the proxy. Blocks on disk I/O.
    package func problems() -> [AccessProblem] {
        let tokenProblems = token?.problems { () throws(UpstreamError) in _ = try fields() } ?? []
        return tokenProblems + tls.problems() + (proxy.settings?.problems() ?? [])
    }
}

extension Credential {
    /// Checks the file with the secret. Blocks on disk I/O. A systemd credential is checked only in a process to which
    /// systemd has passed credentials.
    package func problems(_ read: (() throws(UpstreamError) -> Void)? = nil) -> [AccessProblem] {
        let path: String
        switch self {
        case .file(let file): path = file
        case .systemd(let name):
            guard let directory = getenv("CREDENTIALS_DIRECTORY") else { return [] }
            path = String(cString: directory) + "/" + name
            // Only the main process of a unit may read its credentials, and not the command of ExecReload=.
            if isAccessDenied(path) { return [] }
        }
        return AccessProblem.found(at: path) { () throws(UpstreamError) in
            if let read { try read() } else { _ = try self.read() }
        }
    }
}

extension TLSFiles {
    /// Checks each file. Blocks on disk I/O.
    package func problems() -> [AccessProblem] {
        var problems: [AccessProblem] = []
        for (path, isKey) in [(certificateAuthority, false), (certificate, false), (privateKey, true)] {
            guard let path else { continue }
            problems += AccessProblem.found(at: path) { () throws(UpstreamError) in
                _ = try Self.pem(path, mustBePrivate: isKey)
            }
        }
        guard problems.isEmpty, let path = certificateAuthority ?? certificate else { return problems }
        // The content of all files is checked together, because the key must be that of the certificate.
        problems = AccessProblem.found(at: path) { () throws(UpstreamError) in _ = try read() }
        if problems.isEmpty, let (end, file) = firstExpiry, end <= time(nil) {
            problems.append(
                AccessProblem(
                    description: "\(file): a certificate expired on \(tm(seconds: end).text("%F %T UTC")); renew it",
                    path: file, isDenied: false, isExpiry: true))
        }
        return problems
    }
}

extension ProxySettings {
    /// Checks the files with passwords. Blocks on disk I/O.
    package func problems() -> [AccessProblem] {
        // The settings name one password for both proxies.
        guard case .credential(let credential)? = secure?.password else { return [] }
        return credential.problems()
    }
}
