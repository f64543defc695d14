/// Why the server cannot listen.
public struct ServerError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Which kind of error; new kinds may be added.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String { case alreadyRunning, cannotListen }
        private let kind: Kind

        /// Another agent listens on the socket.
        public static let alreadyRunning = Self(kind: .alreadyRunning)
        /// A system call on the way to a listening socket failed.
        public static let cannotListen = Self(kind: .cannotListen)

        public var description: String { kind.rawValue }
    }

    public let code: Code
    /// What happened and what to do, in one line.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }
}
