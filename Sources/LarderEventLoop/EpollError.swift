/// Why an event loop could not be started, or a descriptor not be watched.
public struct EpollError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Which kind of error; new kinds may be added.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String { case cannotStart, cannotWatch }
        private let kind: Kind

        /// The kernel has no room for another thread or descriptor.
        public static let cannotStart = Self(kind: .cannotStart)
        /// The kernel does not watch another descriptor.
        public static let cannotWatch = Self(kind: .cannotWatch)

        public var description: String { kind.rawValue }
    }

    public let code: Code
    /// What failed and why, in one line.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }
}
