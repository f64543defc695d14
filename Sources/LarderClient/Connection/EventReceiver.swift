import LarderProtocol

/// Receives the events of a subscription. It is called on the event loop of the connection.
protocol EventReceiver: Sendable {
    /// Takes an event.
    /// - Throws: `protocolViolation`, after which the connection is of no use.
    func receive(_ event: ConfigEvent) throws(LarderClientError)

    /// The subscription has ended with an error.
    func interrupt(_ error: LarderClientError)

    /// The subscription has ended because of a change of the settings.
    func withdraw()
}

/// A subscription at the agent. It ends with its last reference.
final class OpenSubscription: Sendable {
    private let connection: Connection
    private let number: Int

    init(connection: Connection, number: Int) {
        self.connection = connection
        self.number = number
    }

    deinit { connection.unsubscribe(number) }
}
