import Glibc

/// Why a measurement failed or is invalid.
struct BenchError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure. New kinds may be added.
    struct Code: Sendable, Hashable {
        private enum Value { case unreachable, closed, silent, refused, unexpected, system, unsuitable }
        private let value: Value

        /// No server accepts connections at the socket.
        static let unreachable = Code(value: .unreachable)
        /// The server closed a connection that was in use.
        static let closed = Code(value: .closed)
        /// The server sent nothing for longer than the stall limit.
        static let silent = Code(value: .silent)
        /// The server replied with an error.
        static let refused = Code(value: .refused)
        /// The server sent a reply that does not match the request.
        static let unexpected = Code(value: .unexpected)
        /// A system call failed.
        static let system = Code(value: .system)
        /// The server's settings do not suit the measurement.
        static let unsuitable = Code(value: .unsuitable)
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
