/// The error thrown if the server cannot listen.
package struct ServerError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. New kinds may be added.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String { case alreadyRunning, cannotListen }
        private let kind: Kind

        /// Another agent is using the socket.
        package static let alreadyRunning = Self(kind: .alreadyRunning)
        /// A system call failed, or the path or group is not usable.
        package static let cannotListen = Self(kind: .cannotListen)

        package var description: String { kind.rawValue }
    }

    package let code: Code
    /// A text in one line: what happened and what to do.
    package let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}
