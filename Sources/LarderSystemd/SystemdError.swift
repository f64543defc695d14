import Glibc

/// Why socket activation or a notification of the service manager failed.
package struct SystemdError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of failure. New kinds may be added, so a `switch` over it needs a default.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Value: String {
            case activationFailed
            case notAStreamListener
            case notificationFailed
        }

        private let value: Value

        /// The passed descriptors cannot be adopted (`sd_listen_fds_with_names(3)`).
        package static let activationFailed = Code(value: .activationFailed)
        /// A passed descriptor is not a listening Unix stream socket.
        package static let notAStreamListener = Code(value: .notAStreamListener)
        /// A notification cannot be sent to the service manager (`sd_notify(3)`).
        package static let notificationFailed = Code(value: .notificationFailed)

        package var description: String { value.rawValue }
    }

    package let code: Code
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

    init(_ code: Code, _ reason: String, systemError: CInt? = nil) {
        self.code = code
        self.reason = reason
        self.systemError = systemError
    }
}
