import Glibc

/// What went wrong between this process and the service manager.
package struct SystemdError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of failure. New kinds may be added, so a `switch` over it needs a default.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Value: String {
            case activationFailed
            case notAStreamListener
            case notificationFailed
        }

        private let value: Value

        /// The passed descriptors could not be taken over (`sd_listen_fds_with_names(3)`).
        package static let activationFailed = Code(value: .activationFailed)
        /// A passed descriptor is something else than a listening Unix stream socket.
        package static let notAStreamListener = Code(value: .notAStreamListener)
        /// The service manager could not be told something (`sd_notify(3)`).
        package static let notificationFailed = Code(value: .notificationFailed)

        /// The code's name, as in `SystemdError.Code.notificationFailed`.
        package var description: String { value.rawValue }
    }

    package let code: Code
    /// One line: what happened, and what to do about it.
    package let reason: String
    /// The system's error number (`errno(3)`) where a system call failed.
    package let systemError: CInt?

    /// The reason, with the system's own words behind it where there are any.
    package var description: String {
        // glibc's strerror is thread-safe since 2.32: it answers from thread-local storage.
        guard let systemError, let words = strerror(systemError) else { return reason }
        return "\(reason): \(String(cString: words))"
    }

    init(_ code: Code, _ reason: String, systemError: CInt? = nil) {
        self.code = code
        self.reason = reason
        self.systemError = systemError
    }
}
