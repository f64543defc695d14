import Glibc

/// Why a measurement could not be made or must not be believed.
struct BenchError: Error, Sendable, CustomStringConvertible {
    /// The kind of failure. New kinds may be added.
    struct Code: Sendable, Hashable {
        private enum Value { case unreachable, closed, silent, refused, unexpected, system, unsuitable }
        private let value: Value

        /// Nobody accepts connections at the socket.
        static let unreachable = Code(value: .unreachable)
        /// The server closed a connection that was still in use.
        static let closed = Code(value: .closed)
        /// The server said nothing for longer than the stall limit.
        static let silent = Code(value: .silent)
        /// The server answered with an error.
        static let refused = Code(value: .refused)
        /// The server answered with something that does not fit the question.
        static let unexpected = Code(value: .unexpected)
        /// A system call failed.
        static let system = Code(value: .system)
        /// The server's settings do not fit what is to be measured.
        static let unsuitable = Code(value: .unsuitable)
    }

    let code: Code
    /// One line: what happened and what to do next.
    let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// The failure of a system call, with the reason that `errno` gives.
    static func system(_ call: String, errno number: Int32 = errno) -> BenchError {
        BenchError(.system, "\(call): \(String(cString: strerror(number)))")
    }
}
