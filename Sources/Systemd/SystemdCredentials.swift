internal import Glibc

/// Secrets that the service manager hands over as files (`systemd.exec(5)`, CREDENTIALS): readable by this service
/// only, never on a disk, never in the environment.
public struct SystemdCredentials: Sendable {
    /// The directory of the credentials; `nil` when the service has none.
    public let directory: String?

    /// The credentials in a directory.
    public init(directory: String?) {
        self.directory = directory
    }

    /// The credentials of this process, in `$CREDENTIALS_DIRECTORY`.
    public static var ofThisProcess: SystemdCredentials {
        SystemdCredentials(directory: getenv("CREDENTIALS_DIRECTORY").map { String(cString: $0) })
    }

    /// Reads a credential whole.
    ///
    /// - Parameters:
    ///   - name: The name given to `LoadCredential=` or `SetCredential=`: a file name, without "/".
    ///   - maximumBytes: The largest size that is taken. systemd itself allows 1 MiB.
    /// - Throws: ``SystemdError`` with `credentialsUnavailable`, `credentialNameInvalid`, `credentialUnreadable` or
    ///   `credentialTooLarge`.
    public func read(_ name: String, maximumBytes: Int = 1 << 20) throws(SystemdError) -> [UInt8] {
        guard Self.isName(name) else {
            throw SystemdError(
                .credentialNameInvalid, "\"\(name)\" is no name of a credential; give a file name without \"/\"")
        }
        guard let directory, !directory.isEmpty else {
            throw SystemdError(
                .credentialsUnavailable,
                "credential \"\(name)\" is not there, as CREDENTIALS_DIRECTORY is not set; "
                    + "add LoadCredential=\(name):/path/to/file to the unit")
        }
        let path = "\(directory)/\(name)"
        // O_NONBLOCK: opening a FIFO must not wait for its writer before fstat can refuse it.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
        guard descriptor >= 0 else { throw unreadable(name, path, errno) }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw unreadable(name, path, errno) }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw SystemdError(.credentialUnreadable, "credential \"\(name)\" is not a regular file: \(path)")
        }
        return try readAll(descriptor, name, path, maximumBytes)
    }

    private func readAll(
        _ descriptor: CInt, _ name: String, _ path: String, _ maximum: Int
    ) throws(SystemdError) -> [UInt8] {
        var content: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = Glibc.read(descriptor, &piece, piece.count)
            if count == 0 { return content }
            if count < 0 {
                guard errno == EINTR else { throw unreadable(name, path, errno) }
                continue
            }
            content += piece[..<count]
            guard content.count <= maximum else {
                throw SystemdError(
                    .credentialTooLarge,
                    "credential \"\(name)\" is larger than \(maximum) bytes; check what its LoadCredential= names")
            }
        }
    }

    private static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= 255 && name != "." && name != ".."
            && !name.utf8.contains { $0 == UInt8(ascii: "/") || $0 < 0x20 || $0 == 0x7f }
    }

    private func unreadable(_ name: String, _ path: String, _ systemError: CInt) -> SystemdError {
        SystemdError(
            .credentialUnreadable,
            "credential \"\(name)\" cannot be read from \(path); check LoadCredential= in the unit",
            systemError: systemError)
    }
}
