/// The error thrown if an event loop cannot be started or a descriptor cannot be watched.
public struct EpollError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. New kinds may be added.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String { case cannotStart, cannotWatch }
        private let kind: Kind

        /// The kernel cannot create another thread or descriptor.
        public static let cannotStart = Self(kind: .cannotStart)
        /// The kernel cannot watch another descriptor.
        public static let cannotWatch = Self(kind: .cannotWatch)

        public var description: String { kind.rawValue }
    }

    public let code: Code
    /// The failure and its cause, in one line.
    public let message: String

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }
}
