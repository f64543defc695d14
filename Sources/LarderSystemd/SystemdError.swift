import Glibc

/// Why socket activation or a notification of the service manager failed.
package struct SystemdError: Error, Sendable, Equatable, CustomStringConvertible {
    /// One line: the failure and what to do.
    package let reason: String
    /// The error number (`errno(3)`) of a failed system call; otherwise nil.
    package let systemError: CInt?

    /// The reason, followed by the text of the error number if there is one.
    package var description: String {
        // glibc's strerror is thread-safe since 2.32: it uses thread-local storage.
        guard let systemError, let words = strerror(systemError) else { return reason }
        return "\(reason): \(String(cString: words))"
    }

    init(_ reason: String, systemError: CInt? = nil) {
        self.reason = reason
        self.systemError = systemError
    }
}
