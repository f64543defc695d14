/// The error thrown if an event loop cannot be started or a descriptor cannot be watched.
public struct EpollError: Error, CustomStringConvertible {
    /// The failure and its cause, in one line.
    public let description: String
}
