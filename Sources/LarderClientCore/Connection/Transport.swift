package import NIOCore

/// How a client reaches its agent.
package struct Transport: Sendable {
    /// Calls a closure on an event loop after a time, unless it is cancelled first.
    package typealias Schedule =
        @Sendable (any EventLoop, TimeAmount, @escaping @Sendable () -> Void) -> Scheduled<Void>

    /// Names the agent in error messages. For a Unix socket it is the path.
    package let name: String
    /// Connects. Returns a socket that does not block, which the caller owns.
    package let open: @Sendable () throws(LarderSocket.ConnectError) -> CInt
    /// Creates the handlers of a connection that are closer to the socket than the client's own handler.
    package let handlers: @Sendable () -> [any ChannelHandler]
    /// Measures the timeouts of calls.
    package let schedule: Schedule

    package init(
        name: String, open: @escaping @Sendable () throws(LarderSocket.ConnectError) -> CInt,
        handlers: @escaping @Sendable () -> [any ChannelHandler] = { [] },
        schedule: @escaping Schedule = { $0.scheduleTask(in: $1, $2) }
    ) {
        (self.name, self.open, self.handlers, self.schedule) = (name, open, handlers, schedule)
    }

    /// Connects to a Unix socket.
    /// - Parameter path: the path of the socket
    static func unixSocket(_ path: String) -> Transport {
        Transport(
            name: path,
            open: { () throws(LarderSocket.ConnectError) in try LarderSocket.connect(path, isBlocking: false) })
    }
}
