import LarderProtocol

/// Receives the events of a subscription. Its methods are called on the event loop of the connection.
protocol EventReceiver: Sendable {
    /// Receives an event.
    /// - Throws: `protocolViolation` if the event does not continue the previous ones. The caller must then close the
    ///   connection.
    func receive(_ event: ConfigEvent) throws(LarderClientError)

    /// Called when the subscription has ended with an error.
    func interrupt(_ error: LarderClientError)

    /// Called when the agent has ended the subscription because the settings changed.
    func withdraw()
}

/// A subscription at the agent. It ends when the last reference to this object is released.
final class OpenSubscription: Sendable {
    private let connection: Connection
    private let number: Int

    init(connection: Connection, number: Int) {
        self.connection = connection
        self.number = number
    }

    deinit { connection.unsubscribe(number) }
}
