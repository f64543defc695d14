import Glibc

/// Why a measurement failed or is invalid.
struct BenchError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure.
    enum Code: Sendable {
        /// No server accepts connections at the socket.
        case unreachable
        /// The server closed a connection that was in use.
        case closed
        /// The server sent nothing for longer than the stall limit.
        case silent
        /// The server replied with an error.
        case refused
        /// The server sent a reply that does not match the request.
        case unexpected
        /// A system call failed.
        case system
        /// The server's settings do not suit the measurement.
        case unsuitable
    }

    let code: Code
    /// A description of the failure and advice, in one line.
    let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// The failure of a system call, with the text for its `errno`.
    static func system(_ call: String, errno number: Int32 = errno) -> BenchError {
        BenchError(.system, "\(call): \(String(cString: strerror(number)))")
    }
}
