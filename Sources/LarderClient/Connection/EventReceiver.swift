import LarderProtocol

/// Receives the events of a subscription. Its methods are called on the event loop of the connection.
protocol EventReceiver: Sendable {
    /// Receives an event.
    /// - Throws: `protocolViolation`. The caller must then close the connection.
    func receive(_ event: ConfigEvent) throws(LarderClientError)

    /// Called when the subscription ended with an error.
    func interrupt(_ error: LarderClientError)

    /// Called when a change of the settings ended the subscription.
    func withdraw()
}

/// A subscription at the agent. It ends with the last reference.
final class OpenSubscription: Sendable {
    private let connection: Connection
    private let number: Int

    init(connection: Connection, number: Int) {
        self.connection = connection
        self.number = number
    }

    deinit { connection.unsubscribe(number) }
}
