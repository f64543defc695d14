/// Why the server cannot listen.
package struct ServerError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Which kind of error; new kinds may be added.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String { case alreadyRunning, cannotListen }
        private let kind: Kind

        /// Another agent listens on the socket.
        package static let alreadyRunning = Self(kind: .alreadyRunning)
        /// A system call on the way to a listening socket failed.
        package static let cannotListen = Self(kind: .cannotListen)

        package var description: String { kind.rawValue }
    }

    package let code: Code
    /// What happened and what to do, in one line.
    package let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { message }
}
