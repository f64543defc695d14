/// The error thrown if an event loop cannot be started or a descriptor cannot be watched.
public struct EpollError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error.
    public enum Code: String, Sendable {
        /// The kernel cannot create another thread or descriptor.
        case cannotStart
        /// The kernel cannot watch another descriptor.
        case cannotWatch
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
