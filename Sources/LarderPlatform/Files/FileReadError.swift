import Glibc

/// Why a file or a directory of files cannot be used as a document.
package struct FileReadError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of failure.
    package enum Code: String, Sendable {
        /// The file does not exist, or its symbolic link is dangling.
        case notFound
        /// Neither the directory nor its parent exists. The path is wrong, or a file system is not mounted.
        case parentMissing
        /// The agent is not allowed to read the file or directory.
        case permissionDenied
        /// The path is not a regular file, or not a directory if one is expected.
        case notAFile
        /// The file, or all files of the directory together, have more bytes than allowed.
        case tooLarge
        /// The directory has more files than allowed.
        case tooMany
        /// The file has no bytes, or the directory has no files.
        case empty
        /// The file is not JSON, or not JSON5 if its name ends with `.json5`; see ``FileReadError/line``.
        case invalidJSON
        /// The file is JSON, but not an object.
        case notAnObject
        /// The file or directory changed during every attempt to read it.
        case unstable
        /// The file contains a secret, and other users can read or change the file.
        case exposed
        /// A system call failed in another way; see ``FileReadError/errno``.
        case ioFailed
        /// The content is not needed any more.
        case cancelled
    }

    package let code: Code
    /// The file or directory.
    package let path: String
    /// The line, from 1; nil if the error has no position.
    package let line: Int?
    /// The column in characters, from 1; nil if the error has no position.
    package let column: Int?
    /// The error number of the failed system call; nil if no system call failed.
    package let errno: CInt?
    /// The reason and a hint, without the path.
    package let reason: String

    package init(
        _ code: Code, _ path: String, _ reason: String, at place: (line: Int, column: Int)? = nil, errno: CInt? = nil
    ) {
        self.code = code
        self.path = path
        self.reason = reason
        (line, column) = (place?.line, place?.column)
        self.errno = errno
    }

    /// The error of a failed system call.
    package init(_ path: String, errno number: CInt) {
        let (code, advice): (Code, String) =
            switch number {
            case ENOENT: (.notFound, "create it or correct the path")
            case EACCES, EPERM:
                (.permissionDenied, "allow the agent's user to read it and to search the directories above it")
            case ENOTDIR, EISDIR, ENXIO: (.notAFile, "correct the path")
            case ELOOP: (.ioFailed, "repair the symbolic links")
            default: (.ioFailed, "see the kernel log")
            }
        // strerror(3) is safe here: glibc gives a constant or thread-local text for every number.
        self.init(
            code, path, "\(String(cString: strerror(number))); \(advice)\(Self.hidden(path) ? Self.hint : "")",
            errno: number)
    }

    private static let hint = ", unless the agent's unit hides it (ProtectHome=, PrivateTmp=; systemctl edit)"

    /// Whether this process runs in a systemd unit, and the path is one that units often hide (systemd.exec(5)).
    private static func hidden(_ path: String) -> Bool {
        getenv("INVOCATION_ID") != nil
            && ["/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/"].contains { path.hasPrefix($0) }
    }

    /// `FILE:LINE:COLUMN: REASON`, in the format of compilers; one line.
    package var description: String {
        ([path] + [line, column].compactMap { $0.map(String.init) }).joined(separator: ":") + ": \(reason)"
    }
}
